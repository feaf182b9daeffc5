// SPDX-License-Identifier: Apache-2.0

package refusallog

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// A Config says where lines go. It is plain data, and the zero Config is a good one.
type Config struct {
	_ [0]func() // fields may be added

	// Logger receives the lines, at level Warn. Default: slog.Default().
	Logger *slog.Logger

	// Top is the most clients that a line names. Default: 5. More than 20 are 20.
	Top int

	// Now is the clock, for tests. Default: time.Now.
	Now func() time.Time
}

// A Log counts refusals until it tells of them. Make it with [New]. One Log serves any number
// of policies. It is safe for concurrent use.
type Log struct {
	logger *slog.Logger
	top    int
	now    func() time.Time

	policies sync.Map     // *policy, by name
	due      atomic.Int64 // when the next line is due, in ns since 1970; 0: there is nothing to tell
}

// New returns a log that has counted nothing.
func New(cfg Config) *Log {
	l := &Log{logger: cmp.Or(cfg.Logger, slog.Default()), top: max(1, min(cmp.Or(cfg.Top, 5), 20)), now: cfg.Now}
	if l.now == nil {
		l.now = time.Now
	}
	return l
}

// OnDecision counts a decision if it is a refusal, also one that shadow mode withheld, and
// writes the lines that are due. It is for [middleware.Config].OnDecision, or for a hook that
// calls several. An admitted request costs a glance at a clock.
func (l *Log) OnDecision(_ context.Context, d middleware.Decision) {
	if !d.Admitted {
		client := d.Pseudonym()
		p := l.policy(d.Policy)
		l.announce(p.count(&d, client, l.now()))
	}
	due := l.due.Load()
	if due == 0 {
		return
	}
	if now := l.now(); passed(now, due) {
		l.tell(now, false)
	}
}

// Flush logs all that is not logged yet, before it is due: call it at the end of the program,
// or from a ticker.
func (l *Log) Flush() { l.tell(l.now(), true) }

// policy returns what is counted of a policy.
func (l *Log) policy(name string) *policy {
	p, there := l.policies.Load(name)
	if !there {
		p, _ = l.policies.LoadOrStore(name, &policy{name: name, reasons: map[middleware.Reason]uint64{}})
	}
	return p.(*policy)
}

// announce has the next line be due at a time, or before.
func (l *Log) announce(at int64) {
	for {
		due := l.due.Load()
		if due != 0 && due <= at || l.due.CompareAndSwap(due, at) {
			return
		}
	}
}

// tell writes the lines that are due, or all. A refusal is announced after it is counted:
// either it is told here, or the announcement stands.
func (l *Log) tell(now time.Time, all bool) {
	l.due.Store(0)
	var policies []*policy
	for _, p := range l.policies.Range {
		policies = append(policies, p.(*policy))
	}
	slices.SortFunc(policies, func(p, q *policy) int { return cmp.Compare(p.name, q.name) })
	for _, p := range policies {
		line, due := p.take(now, l.top, all)
		if due != 0 {
			l.announce(due)
		}
		if line != nil {
			l.logger.LogAttrs(context.Background(), slog.LevelWarn, "tallystick: requests refused", line...)
		}
	}
}
