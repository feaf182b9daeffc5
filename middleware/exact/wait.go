package exact

import (
	"context"
	"fmt"
	"time"
)

// ErrImpossible says that a call costs more than a limit admits at once: it could wait
// for ever. It is [ErrNotCounted].
var ErrImpossible = fmt.Errorf("%w: the call costs more than a limit admits at once", ErrNotCounted)

// Wait takes a call when there is room for it: for programs that pace themselves, such
// as a worker that shares the quota of an upstream service with others, or spends what
// its customers may (see Middleware.CallFor of package middleware). A refusal says how
// long to wait; if the deadline of ctx comes before that, Wait does not, and returns
// [context.DeadlineExceeded] at once. That, and the end of ctx while it waits, is
// [ErrNotCounted] too. An error of the counter is returned at once, not waited out. The
// ID of the call is for its first attempt. There is no queue: the caller that asks first when
// there is room has it.
func Wait(ctx context.Context, c Counter, call Call) (Verdict, error) {
	for {
		v, err := c.Take(ctx, call)
		if err != nil || v.Admitted {
			return v, err
		}
		if v.Impossible {
			return v, ErrImpossible
		}
		wait := max(v.Wait, time.Second) // a refusal that was replayed may say less
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return v, fmt.Errorf("%w: %w", ErrNotCounted, context.DeadlineExceeded)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return v, fmt.Errorf("%w: %w", ErrNotCounted, ctx.Err())
		}
		call.ID = ""
	}
}
