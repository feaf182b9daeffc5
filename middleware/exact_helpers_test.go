// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

var errEngine = errors.New("engine on fire")

// hasty is paid with the default deadline, 50 ms.
func hasty(c *clock, counter exact.Counter) middleware.Config {
	cfg := paid(c, counter)
	cfg.Exact.Deadline = 0
	return cfg
}

// notTaken is a call that fails at once, and notRefunded a refund.
func notTaken(err error) func(context.Context, exact.Call) (exact.Verdict, error) {
	return func(context.Context, exact.Call) (exact.Verdict, error) { return exact.Verdict{}, err }
}

func notRefunded(err error) func(context.Context, exact.Receipt) error {
	return func(context.Context, exact.Receipt) error { return err }
}

// paidRoute is an exact route, and its engine.
func paidRoute() (c *clock, l *ledger, cfg middleware.Config) {
	c = new(clock)
	l = newLedger(c)
	return c, l, paid(c, l)
}

// breaks has a counter fail for as long as it takes to open the breaker.
func breaks(h http.Handler, c *clock) {
	admitted(h, 5)
	c.Advance(time.Second)
	admitted(h, 3)
}

func onFire(context.Context, int) error { return errEngine }

func paidSite(t testing.TB) (c *clock, l *ledger, h *site) {
	t.Helper()
	c, l, cfg := paidRoute()
	return c, l, newSite(t, cfg)
}
