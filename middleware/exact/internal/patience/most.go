// SPDX-License-Identifier: Apache-2.0

// Package patience says how long a call may take that several callers wait for.
package patience

import (
	"context"
	"time"
)

// Most returns a context that ends when the most patient of some callers gives up: by the last of
// their deadlines or, if one has none, when all have gone, so that one stuck caller cannot hold the
// call for good. If a caller cannot be cancelled, it never ends. It has the values of the first.
func Most(callers []context.Context) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(callers[0])
	var last time.Time
	for _, c := range callers {
		d, bounded := c.Deadline()
		if !bounded {
			return whileAny(ctx, callers)
		}
		if d.After(last) {
			last = d
		}
	}
	return context.WithDeadline(ctx, last)
}

func whileAny(ctx context.Context, callers []context.Context) (context.Context, context.CancelFunc) {
	for _, c := range callers {
		if c.Done() == nil {
			return ctx, func() {}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for _, c := range callers {
			select {
			case <-c.Done():
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}
