// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"slices"
	"time"
	"weak"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
)

// JoinPeers has m, which was asked nothing yet, count together with the peers whose records these are.
func (m *Middleware) JoinPeers(records *gossip.Records) {
	e := *m.loaded()
	m.peers, e.peers = records, records
	m.memory.Join(records, e.name)
	m.engine.Store(&e)
}

// SellOut sells tallies to id at now until the next would cost more than a challenge can
// ask for. No test could work for that.
func (m *Middleware) SellOut(now time.Time, id Identity) {
	e := m.loaded()
	buyers := e.about(context.Background(), now, id).buyers(nil)
	for n := byte(1); e.challenge.prices.Quote(now, e.memory, buyers).Price > 0; n++ {
		e.challenge.prices.Redeem(now, e.memory, buyers, ownKey(e.memory, [6]byte{n}), now, 1<<40)
	}
}

// BusyFor reports whether work comes first for id at now.
func (m *Middleware) BusyFor(now time.Time, id Identity) bool {
	e := m.loaded()
	return e.about(context.Background(), now, id).workFirst()
}

// Codes are the codes of lines in the log; docs/checks.md explains each.
func Codes() (codes []string) {
	for _, f := range diagnostics {
		codes = append(codes, f.code)
	}
	return codes
}

// ChecksPage is the address of docs/checks.md, before the code.
const ChecksPage = checksPage

// KnowsBySight reports whether m would not read a token that id shows, and what it says.
func (m *Middleware) KnowsBySight(id Identity, tok string) (says limiter.Tally, ok bool) {
	e := m.loaded()
	rest, err := e.codec.Glance(tok)
	ok = err == nil && e.about(context.Background(), e.now(), id).knows(rest, &says)
	return says, ok
}

// ReadAlways has m read every token, until it is configured anew.
func (m *Middleware) ReadAlways() {
	e := *m.loaded()
	e.tokenCache = nil
	m.engine.Store(&e)
}

// Remembered reports whether the process knows of a middleware, that is not gone, with a policy and a logger.
func Remembered(policy string, log *slog.Logger) bool {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	return slices.ContainsFunc(inUse.all, func(e entry) bool {
		return e.policy == policy && e.log == weak.Make(log) && e.of.Value() != nil
	})
}

// DeadlineOf returns the deadline of a call.
func DeadlineOf(x Exact) time.Duration { return x.withDefaults().Deadline }
