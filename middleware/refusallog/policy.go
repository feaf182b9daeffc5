// SPDX-License-Identifier: Apache-2.0

package refusallog

import (
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// every is the least time between two lines of a policy.
const every = time.Minute

type policy struct {
	name string

	mu       sync.Mutex
	told     time.Time // when its last line was; zero: never
	since    time.Time // of the first refusal that is not told yet
	refused  uint64
	withheld uint64 // by shadow mode: such requests were passed on
	reasons  map[middleware.Reason]uint64
	clients  offenders
	distinct distinct
}

// count counts a refusal of a client, "" if unknown, and returns when to log it.
func (p *policy) count(d *middleware.Decision, client string, now time.Time) (due int64) {
	hash := sha256.Sum256([]byte(client))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == 0 {
		p.since = now
	}
	p.refused++
	if d.Allowed {
		p.withheld++
	}
	p.reasons[d.Reason]++
	if client != "" {
		p.clients.add(client, d.Reason)
		p.distinct.add(binary.BigEndian.Uint64(hash[:]))
	}
	return p.due(now)
}

// due returns when the next line is due.
func (p *policy) due(now time.Time) int64 {
	at := p.told.Add(every)
	if p.told.IsZero() || passed(now, at.UnixNano()) {
		at = now
	}
	return at.UnixNano()
}

// passed reports whether a time has come. A time further ahead than a line can be due is the mark
// of a clock that has stepped back.
func passed(now time.Time, at int64) bool {
	ahead := time.Duration(at - now.UnixNano())
	return ahead <= 0 || ahead > every
}

// take returns the line that is due, and forgets what it says; or nil, and when one will be
// due, if there is anything to tell.
func (p *policy) take(now time.Time, top int, all bool) (line []slog.Attr, due int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == 0 {
		return nil, 0
	}
	if at := p.due(now); at > now.UnixNano() && !all {
		return nil, at
	}
	line = []slog.Attr{
		slog.String("policy", p.name),
		slog.Uint64("refused", p.refused),
		slog.Duration("within", max(0, now.Sub(p.since)).Round(time.Millisecond)),
	}
	if p.withheld > 0 {
		line = append(line, slog.Uint64("withheld", p.withheld))
	}
	var reasons []any
	for _, reason := range slices.Sorted(maps.Keys(p.reasons)) {
		reasons = append(reasons, slog.Uint64(string(reason), p.reasons[reason]))
	}
	line = append(line, slog.Group("reasons", reasons...), slog.Uint64("clients", p.distinct.about()))
	if most := p.clients.most(top); len(most) > 0 {
		words := make([]string, len(most))
		for i, c := range most {
			words[i] = c.client + "=" + strconv.FormatUint(c.atLeast(), 10) + " " + string(c.reason)
		}
		line = append(line, slog.String("most", strings.Join(words, ", ")))
	}
	p.told, p.refused, p.withheld = now, 0, 0
	clear(p.reasons)
	p.clients.clear()
	p.distinct = distinct{}
	return line, 0
}
