// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// A charge is a call that has reached an account.
type charge struct {
	clock time.Duration
	call  exact.Call
}

// A verdict is what the counter of a middleware has said.
type verdict struct {
	exact.Verdict
	err error
}

// A desk is the counter of a middleware: the ring of its instance, but for what was said before, which it repeats, and for
// who only looks.
type desk struct {
	*ring.Ring
	nobody *ring.Ring // which knows nothing of anybody
	later  *ring.Ring // the same with the newest list, once something was asked
	before []verdict
	said   []verdict
	call   exact.Call
	looked bool
}

func (d *desk) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if d.call = call; len(d.before) > 0 {
		v := d.before[0]
		d.before = d.before[1:]
		return v.Verdict, v.err
	}
	if d.later != nil && len(d.said) > 0 {
		d.Ring = d.later
	}
	v, err := d.Ring.Take(ctx, call)
	d.said = append(d.said, verdict{v, err})
	return v, err
}

func (d *desk) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	d.call, d.looked = call, true
	return d.nobody.Peek(ctx, call)
}
