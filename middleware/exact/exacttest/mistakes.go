// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"

	"github.com/tallystick/tallystick/middleware/exact"
)

func mistakes(r *run) {
	p := policy(fixed(5, long))
	huge := string(make([]byte, exact.MaxKey+1))
	r.mistaken(map[string]exact.Call{
		"no policy":       {Key: r.key(0), Cost: 1},
		"no key":          {Cost: 1, Policy: p},
		"a key too long":  {Key: huge, Cost: 1, Policy: p},
		"no cost":         {Key: r.key(0), Policy: p},
		"a negative cost": {Key: r.key(0), Cost: -1, Policy: p},
		"an ID too long":  {Key: r.key(0), Cost: 1, Policy: p, ID: huge},
	})
	r.want(p, r.key(0), 1, true, 4)
}

// mistaken checks that calls are refused by name, whether they are taken or looked at.
func (r *run) mistaken(calls map[string]exact.Call) {
	for what, call := range calls {
		if _, err := r.Take(context.Background(), call); !errors.Is(err, exact.ErrCall) {
			r.fail("%s: %v, want ErrCall", what, err)
		}
		if _, err := r.Peek(context.Background(), call); !errors.Is(err, exact.ErrCall) {
			r.fail("a peek with %s: %v, want ErrCall", what, err)
		}
	}
}

func ended(r *run) {
	p := policy(fixed(5, long))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Take(ctx, exact.Call{Key: r.key(0), Cost: 1, Policy: p}); !errors.Is(err, exact.ErrNotCounted) {
		r.fail("%v, want ErrNotCounted", err)
	}
	r.want(p, r.key(0), 1, true, 4)
}
