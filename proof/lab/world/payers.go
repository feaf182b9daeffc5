// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const payerEach = 8 // requests of a round

// payers are honest clients of the exact routes, each of which asks one instance after the other: new ones for each cycle, and
// some of the last ones stay, so that what they were charged is looked at when all is over. strike is called when
// half of a turn is done.
func (w *world) payers(strike func()) (all []func(t turn)) {
	const each = 4
	var done atomic.Int64
	for _, policy := range []string{paid, open} {
		for i := range each {
			c := w.friend(policy, "payer", i)
			all = append(all, func(t turn) {
				for n := range t.share(payerEach) {
					w.send(c, i+n, "")
					if done.Add(1)%(2*each*payerEach) == each*payerEach {
						strike()
					}
				}
			})
		}
	}
	return all
}

// keptMost is how many accounts of old payers stay open.
const keptMost = 64

// settle compares what the server has of the accounts with what was acknowledged; but for some
// that stay open, if not all are to be closed.
func (w *world) settle(ctx context.Context, all bool) {
	for _, policy := range []string{paid, open} {
		list := w.Accounts(policy)
		if !all && len(list) > keptMost {
			list = list[:len(list)-keptMost]
		} else if !all {
			continue
		}
		for _, address := range list {
			var left int64
			ask := fmt.Sprintf("account?policy=%s&address=%s", policy, address)
			err := w.House.Instances[0].Get(ask, &left)
			for end := time.Now().Add(patience); err != nil && time.Now().Before(end) && ctx.Err() == nil; {
				time.Sleep(10 * time.Millisecond)
				err = w.House.Instances[0].Get(ask, &left)
			}
			if err != nil {
				w.Fail(fmt.Errorf("what the server has of an account: %w", err))
				return
			}
			w.Compare(policy, address, exactQuota-left)
		}
	}
}
