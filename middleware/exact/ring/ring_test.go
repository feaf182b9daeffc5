// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/exactkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/ring"
	"github.com/tallystick/tallystick/storeless"
)

var secrets = [][]byte{bytes.Repeat([]byte{7}, 32)}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// fleet opens n rings with listeners of their own.
func fleet(t testing.TB, n int) (rings []*ring.Ring, addresses []string) {
	listeners := make([]net.Listener, n)
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners[i], addresses = l, append(addresses, l.Addr().String())
	}
	for i, l := range listeners {
		r, err := ring.Open(ring.Config{Self: addresses[i], Members: addresses, Secrets: secrets, Listener: l, Logger: silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		rings = append(rings, r)
	}
	return rings, addresses
}

// Three processes, whichever is asked, admit L of each key; and each owns some.
func TestThreeCountAsOne(t *testing.T) {
	rings, _ := fleet(t, 3)
	p, admitted := exactkit.PerYear(t, 5), make(map[string]int)
	for i := range 60 * 20 {
		key := strconv.Itoa(i % 20)
		if exactkit.Take(t, rings[i%3], exact.Call{Key: key, Cost: 1, Policy: p}).Admitted {
			admitted[key]++
		}
	}
	require.Len(t, admitted, 20)
	for key, n := range admitted {
		require.Equal(t, 5, n, key)
	}
	accounts := 0
	for _, r := range rings {
		s := r.Stats()
		require.Positive(t, s.Accounts)
		require.EqualValues(t, s.Accounts, s.Opened)
		require.Positive(t, s.Own)
		require.Positive(t, s.Out)
		require.Positive(t, s.Served)
		require.Zero(t, s.Foreign)
		require.EqualValues(t, 1, s.Changes)
		accounts += s.Accounts
	}
	require.Equal(t, 20, accounts)
}

// Each is answered by whoever has charged it, whichever process asks to have it back.
func TestRefundsFindTheirOwner(t *testing.T) {
	rings, _ := fleet(t, 3)
	p := exactkit.PerYear(t, 1)
	for i := range 12 {
		call := exact.Call{Key: strconv.Itoa(i), Cost: 1, Policy: p}
		v := exactkit.Take(t, rings[i%3], call)
		require.True(t, v.Admitted)
		require.False(t, exactkit.Take(t, rings[(i+1)%3], call).Admitted)
		require.NoError(t, rings[(i+2)%3].Refund(t.Context(), v.Receipt))
		require.ErrorIs(t, rings[i%3].Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
		require.True(t, exactkit.Take(t, rings[i%3], call).Admitted)
	}
}

// site is an instance of a site.
func site(t testing.TB, counter exact.Counter, limits ...storeless.Limit) *httptest.Server {
	m, err := middleware.New(middleware.Config{
		Policy: "contact", Limits: limits, Secrets: [][]byte{bytes.Repeat([]byte{1}, 32)}, Logger: silent, Advanced: middleware.Advanced{InsecureCookie: true},
		Exact: &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second},
	})
	require.NoError(t, err)
	s := httptest.NewServer(m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(s.Close)
	return s
}

func get(t testing.TB, c *http.Client, u string) int {
	resp, err := c.Get(u)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// The middleware in front of three: who drops its token gets L of all of them together, and who echoes it
// keeps L when the owner of its key is another from one request to the next.
func TestTheMiddlewareInFront(t *testing.T) {
	rings, addresses := fleet(t, 3)
	var sites []*httptest.Server
	for _, r := range rings {
		sites = append(sites, site(t, r, exactkit.Hourly(5)))
	}
	admitted := 0
	for i := range 60 {
		if get(t, http.DefaultClient, sites[i%3].URL) == 200 {
			admitted++
		}
	}
	require.Equal(t, 5, admitted)

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	echoes := &http.Client{Jar: jar}
	rings, addresses = fleet(t, 3) // which know nothing of the address
	sites = sites[:0]
	for _, r := range rings {
		sites = append(sites, site(t, r, exactkit.Hourly(5)))
	}
	admitted = 0
	for i := range 60 {
		for _, r := range rings {
			r.Adopt(addresses[i%3])
		}
		if get(t, echoes, sites[i%3].URL) == 200 { // a jar goes by the host, without its port
			admitted++
		}
	}
	require.Equal(t, 5, admitted)
	opened := uint64(0)
	for _, r := range rings {
		opened += r.Stats().Opened
	}
	require.EqualValues(t, 3, opened, "each owner has opened an account, with what the token said")
}
