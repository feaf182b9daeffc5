// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// payers are honest clients of the exact routes: new ones for each cycle, and some of the last
// ones stay, so that what they were charged is looked at when all is over.
type payers struct {
	now []*caller
}

func (w *world) payers() *payers {
	p := &payers{}
	for _, policy := range []string{paid, open} {
		for i := range 4 {
			p.now = append(p.now, w.caller(policy, "payer", i))
		}
	}
	return p
}

// run has each payer ask one instance after the other. strike is called when half of it is done.
func (p *payers) run(t turn, wg *sync.WaitGroup, strike func()) {
	var done atomic.Int64
	half := int64(len(p.now) * t.share(payerEach) / 2)
	for i, c := range p.now {
		wg.Go(func() {
			for n := range t.share(payerEach) {
				c.send(i+n, "") // the ledger judges
				if done.Add(1) == half {
					strike()
				}
			}
		})
	}
}

// keptMost is how many accounts of old payers stay open.
const keptMost = 64

// settle compares what the server has of the accounts with what was acknowledged; but for some
// that stay open, if not all are to be closed.
func (w *world) settle(ctx context.Context, all bool) {
	for _, policy := range []string{paid, open} {
		l := w.ledgers[policy]
		list := l.open()
		if !all && len(list) > keptMost {
			list = list[:len(list)-keptMost]
		} else if !all {
			continue
		}
		for _, address := range list {
			call, err := w.sites[0].limits[policy].CallFor(middleware.Address(address))
			if err != nil {
				w.fail(err)
				return
			}
			v, err := w.counter.Peek(ctx, call)
			for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
				v, err = w.counter.Peek(ctx, call)
			}
			if err != nil {
				w.fail(fmt.Errorf("what the server has of an account: %w", err))
				return
			}
			l.compare(address, exactQuota-v.Limits[0].Remaining)
		}
	}
}

// kill kills Redis: from the moment before, no answer is promised.
func (w *world) kill() {
	w.outage.Change()
	w.redis.kill()
	w.kills.Add(1)
}

// revive starts Redis again, and waits until every instance has it back, for good.
func (w *world) revive(ctx context.Context) {
	if !w.redis.stands() {
		if err := w.redis.start(ctx); err != nil {
			if ctx.Err() == nil {
				w.fail(err)
			}
			return
		}
	}
	for _, policy := range []string{paid, open} {
		for i := range instances {
			if !w.answersAgain(ctx, policy, i) {
				return
			}
		}
	}
	w.outage.Change()
}

// answersAgain asks an instance until its counter has decided eight times running: each connection
// that has died with the server fails once.
func (w *world) answersAgain(ctx context.Context, policy string, instance int) bool {
	c := w.caller(policy, "probe", instance)
	for row, end := 0, time.Now().Add(patience); row < 8; {
		a, err := c.ask(instance, http.MethodPost, "", "")
		switch {
		case err == nil && strings.HasSuffix(a.why, " answered"):
			row++
			continue
		case ctx.Err() != nil:
			return false
		case time.Now().After(end):
			w.unanswered.Note(fmt.Sprintf("instance %d, /%s, still: %s", instance, policy, a.why))
			return false
		}
		row = 0
		time.Sleep(10 * time.Millisecond) // the breaker lets one through in a while
	}
	return true
}
