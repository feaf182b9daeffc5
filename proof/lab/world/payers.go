// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// payers are honest clients of the exact routes: new ones for each cycle, and some of the last
// ones stay, so that what they were charged is looked at when all is over.
type payers []*court.Client

func (w *world) payers() (p payers) {
	for _, policy := range []string{paid, open} {
		for i := range 4 {
			p = append(p, w.friend(policy, "payer", i))
		}
	}
	return p
}

const payerEach = 8 // requests of a round

// run has each payer ask one instance after the other. strike is called when half of it is done.
func (p payers) run(w *world, t turn, wg *sync.WaitGroup, strike func()) {
	var done atomic.Int64
	half := int64(len(p) * t.share(payerEach) / 2)
	for i, c := range p {
		wg.Go(func() {
			for n := range t.share(payerEach) {
				w.send(c, i+n, "")
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
