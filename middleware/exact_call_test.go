// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

func TestRefundMayBeTriedAgain(t *testing.T) {
	c := new(clock)
	counter := &unrefundable{Counter: exact.NewMemory(0, c.Now)}
	var errs []error
	h := newLimiter(t, paid(c, counter)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, err := range []error{exact.ErrNotCounted, exact.ErrNotCounted, nil, nil} {
			counter.err = err
			errs = append(errs, middleware.Refund(w, r))
		}
	}))
	send(h)
	require.ErrorIs(t, errs[0], exact.ErrNotCounted)
	require.ErrorIs(t, errs[1], exact.ErrNotCounted)
	require.NoError(t, errs[2])
	require.ErrorIs(t, errs[3], exact.ErrNoRefund)

	var err error
	plain := newLimiter(t, contact(c)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = middleware.Refund(w, r) }))
	send(plain)
	require.NoError(t, err, "on any policy")
}

// unrefundable is a counter that fails to refund.
type unrefundable struct {
	exact.Counter
	err error
}

func (u *unrefundable) Refund(ctx context.Context, r exact.Receipt) error {
	if u.err != nil {
		return u.err
	}
	return u.Counter.Refund(ctx, r)
}

// A worker spends the quota that its customer spends by requests.
func TestExactCallIsTheCallOfARequest(t *testing.T) {
	c := new(clock)
	counter := exact.NewMemory(0, c.Now)
	cfg := paid(c, counter)
	pro := cfg.Limits[0]
	pro.Quota = 9
	cfg.Tiers = map[string][]middleware.Limit{"pro": {pro}}
	customer := middleware.APIKey("c1").For("maps")
	customer.Tier = "pro"
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return customer, nil }
	m := newLimiter(t, cfg)
	h := m.Handler(new(spy))
	require.Equal(t, 4, admitted(h, 4))
	call, err := m.CallFor(customer)
	require.NoError(t, err)
	for range 5 {
		v, err := counter.Take(t.Context(), call)
		require.NoError(t, err)
		require.True(t, v.Admitted)
	}
	require.Equal(t, http.StatusTooManyRequests, send(h).StatusCode)
	v, err := counter.Peek(t.Context(), call)
	require.NoError(t, err)
	require.Zero(t, v.Limits[0].Remaining)

	_, err = m.CallFor(middleware.Identity{})
	require.ErrorContains(t, err, "nobody")
	_, err = newLimiter(t, contact(c)).CallFor(customer)
	require.ErrorContains(t, err, "Config.Exact")
}
