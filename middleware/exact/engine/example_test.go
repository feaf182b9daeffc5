// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// A drawer is a counter on a store of bytes, here a map behind a lock. It is all that a counter needs.
type drawer struct {
	mu    sync.Mutex
	bytes map[string][]byte
	now   func() time.Time
}

// open loads the account of a name. A drawer of a server would answer exact.ErrNotCounted if it cannot.
func (d *drawer) open(name string) (a engine.Account, err error) {
	if kept := d.bytes[name]; kept != nil {
		err = a.UnmarshalBinary(kept)
	}
	return a, err
}

// put stores an account. A server would forget it at a.Expires().
func (d *drawer) put(name string, a *engine.Account) (err error) {
	d.bytes[name], err = a.AppendBinary(nil)
	return err
}

func (d *drawer) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := call.Policy.AccountName(call.Key)
	a, err := d.open(name)
	if err != nil {
		return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	v := a.Take(d.now(), &call)
	if v.Admitted {
		err = d.put(name, &a)
	}
	return v, err
}

func (d *drawer) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := d.open(call.Policy.AccountName(call.Key))
	if err != nil {
		return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return a.Peek(d.now(), &call), nil
}

func (d *drawer) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := r.Policy.AccountName(r.Key)
	a, err := d.open(name)
	if err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	if err := a.Refund(d.now(), &r); err != nil {
		return err
	}
	return d.put(name, &a)
}

// A counter of your own loads an account, takes the call and stores the account.
func Example() {
	reports, err := exact.Compile("reports", []storeless.Limit{{Quota: 2, Window: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var counter exact.Counter = &drawer{bytes: map[string][]byte{}, now: time.Now}
	for range 3 {
		v, err := counter.Take(context.Background(), exact.Call{Key: "customer-7", Cost: 1, Policy: reports})
		fmt.Println(v.Admitted, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
