// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// failures returns how many failures more a client may have, by what the next decision says, which is taken back.
func failuresLeft(t testing.TB, m *middleware.Middleware, options ...option) int64 {
	t.Helper()
	var left int64
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		left = d.Limits()[1].Remaining + 1
		middleware.Charge(r, false)
	}))
	if send(h, options...).StatusCode == http.StatusTooManyRequests {
		return 0
	}
	return left
}

// passwords is a log-in: a right password is answered 303, a wrong one 401.
func passwords(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Password") == "right" {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

var right = with("X-Password", "right")

func TestOutcomeCountsFailuresAlone(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		c := new(clock)
		h := newLimiter(t, login(c)).Handler(http.HandlerFunc(passwords))
		for range 100 {
			require.Equal(t, http.StatusSeeOther, send(h, method(m), right).StatusCode)
		}
		for range 5 {
			require.Equal(t, http.StatusUnauthorized, send(h, method(m)).StatusCode)
		}
		resp := requireStatus(t, http.StatusTooManyRequests, send(h, method(m), right))
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
		c.Advance(time.Minute)
		require.Equal(t, http.StatusUnauthorized, send(h, method(m)).StatusCode)
	}
}

// The token that goes with an answer says whether it counts: another instance knows nothing else.
func TestOutcomeIsInTheToken(t *testing.T) {
	for name, carry := range map[string]middleware.TokenTransport{"header": middleware.HeaderOnly, "cookie": middleware.CookieOnly} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			cfg := login(c)
			cfg.TokenTransport = carry
			show := func(resp *http.Response) option {
				if carry == middleware.HeaderOnly {
					return showing(resp.Header.Get(middleware.TokenHeader))
				}
				cookies := resp.Cookies()
				require.Len(t, cookies, 1)
				return with("Cookie", cookies[0].Name+"="+cookies[0].Value)
			}
			m := newLimiter(t, cfg)
			h := m.Handler(http.HandlerFunc(passwords))
			require.EqualValues(t, 5, failuresLeft(t, newLimiter(t, cfg), show(send(h, right))))
			resp := send(h)
			require.EqualValues(t, 4, failuresLeft(t, newLimiter(t, cfg), show(resp)))
			resp = send(h, show(resp))
			require.EqualValues(t, 3, failuresLeft(t, newLimiter(t, cfg), show(resp)))
			resp = send(h, show(resp), right)
			require.EqualValues(t, 3, failuresLeft(t, newLimiter(t, cfg), show(resp)))
		})
	}
}

// A handler and what becomes of its request.
func TestOutcomeThatIsNotToldIsCharged(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	var c *clock
	for _, test := range []struct {
		name    string
		charged int64
		ctx     context.Context
		serve   http.HandlerFunc
	}{
		{"a free status", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303) }},
		{"another status", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(302) }},
		{"no status", 1, nil, func(http.ResponseWriter, *http.Request) {}},
		{"a body alone", 0, nil, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "welcome") }},
		{"a flush alone", 1, nil, func(w http.ResponseWriter, r *http.Request) { _ = http.NewResponseController(w).Flush() }},
		{"a flush, then a free status", 1, nil, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(303)
		}},
		{"no flush, then a free status", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(303)
		}},
		{"a free status, then no flush, then a body", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(303)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "see other")
		}},
		{"another status, then no flush, then a body", 1, nil, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "wrong")
		}},
		{"early hints", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103) }},
		{"early hints, then a free status", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103); w.WriteHeader(303) }},
		{"a status, then a free one", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); w.WriteHeader(303) }},
		{"the client is gone", 1, gone, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303) }},
		{"a panic", 1, nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"a panic after a free status", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303); panic(http.ErrAbortHandler) }},
		{"a panic after no charge", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); panic(http.ErrAbortHandler) }},
		{"a hijack", 1, nil, hijack},
		{"a hijack after a free status", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303); hijack(w, r) }},
		{"a free status after ten seconds", 1, nil, func(w http.ResponseWriter, r *http.Request) { c.Advance(10 * time.Second); w.WriteHeader(303) }},
		{"a free status a moment before", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			c.Advance(10*time.Second - time.Microsecond)
			w.WriteHeader(303)
		}},
		{"no charge", 0, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); w.WriteHeader(401) }},
		{"no charge and no status", 0, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false) }},
		{"no charge, late", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); middleware.Charge(r, false) }},
		{"no charge after ten seconds", 0, nil, func(w http.ResponseWriter, r *http.Request) { c.Advance(time.Minute); middleware.Charge(r, false) }},
		{"no charge and a hijack", 0, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); hijack(w, r) }},
		{"Charge", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, true); w.WriteHeader(303) }},
		{"Charge, late", 1, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303); middleware.Charge(r, true) }},
		{"Charge twice", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, true); middleware.Charge(r, true) }},
		{"both", 1, nil, func(w http.ResponseWriter, r *http.Request) { middleware.Charge(r, false); middleware.Charge(r, true) }},
		{"both, and no charge at last", 0, nil, func(w http.ResponseWriter, r *http.Request) {
			middleware.Charge(r, false)
			middleware.Charge(r, true)
			middleware.Charge(r, false)
		}},
		{"a refund", 0, nil, func(w http.ResponseWriter, r *http.Request) { _ = middleware.Refund(w, r); w.WriteHeader(401) }},
		{"a refund, late", 0, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); _ = middleware.Refund(w, r) }},
		{"settled for three", 3, nil, func(w http.ResponseWriter, r *http.Request) { _ = middleware.Settle(r, 3); w.WriteHeader(401) }},
		{"settled for three, late", 3, nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); _ = middleware.Settle(r, 3) }},
		{"settled for three and free", 0, nil, func(w http.ResponseWriter, r *http.Request) { _ = middleware.Settle(r, 3); w.WriteHeader(303) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c = new(clock)
			cfg := login(c)
			cfg.ByOutcome.Free = []int{200, 303}
			var outer, inner http.Handler
			m := newLimiter(t, cfg)
			inner = m.Handler(test.serve)
			outer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { _ = recover() }()
				if test.ctx != nil {
					r = r.WithContext(test.ctx)
				}
				if !strings.HasPrefix(test.name, "a flush") {
					w = flushless{w}
				}
				inner.ServeHTTP(w, r)
			})
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			from("203.0.113.1")(r)
			w := httptest.NewRecorder()
			outer.ServeHTTP(w, r)
			require.Equal(t, 5-test.charged, failuresLeft(t, m))
		})
	}
}

// TestOutcomeIsNotThatOfAFailedFlush: the answers to log-ins that succeed are free, whatever their
// handler has tried before on a writer that cannot.
func TestOutcomeIsNotThatOfAFailedFlush(t *testing.T) {
	flush := func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }
	for name, test := range map[string]struct {
		below func(http.ResponseWriter) http.ResponseWriter
		try   http.HandlerFunc
		left  int64
	}{
		"a flush":            {func(w http.ResponseWriter) http.ResponseWriter { return w }, flush, 0},
		"no flush":           {func(w http.ResponseWriter) http.ResponseWriter { return flushless{w} }, flush, 5},
		"no flush beneath":   {func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{flushless{w}} }, flush, 5},
		"no flush, if asked": {func(w http.ResponseWriter) http.ResponseWriter { return unflushable{flushless{w}} }, flush, 5},
		"no hijack": {func(w http.ResponseWriter) http.ResponseWriter { return unhijackable{w.(*httptest.ResponseRecorder)} },
			func(w http.ResponseWriter, r *http.Request) { hijack(w, r); hijack(w, r) }, 5},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			for _, stacked := range []bool{false, true} {
				t.Run(name+", "+m, func(t *testing.T) {
					c := new(clock)
					right := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						test.try(w, r)
						w.WriteHeader(http.StatusSeeOther)
					}))
					cfg := login(c)
					inner := newLimiter(t, cfg)
					h := inner.Handler(right)
					if stacked {
						h = newLimiter(t, login(c)).Handler(h)
					}
					var last *http.Response
					for range 6 {
						w := httptest.NewRecorder()
						h.ServeHTTP(test.below(w), httptest.NewRequest(m, "/", nil))
						last = w.Result()
					}
					here := from("192.0.2.1")
					require.Equal(t, test.left, failuresLeft(t, inner, here))
					if test.left == 5 {
						require.Equal(t, http.StatusSeeOther, last.StatusCode)
						require.Equal(t, test.left, failuresLeft(t, newLimiter(t, cfg), here, showing(last.Header.Values("Tallystick-Token")...)), "by the token")
					}
				})
			}
		}
	}
}

// unflushable is a writer that cannot flush, and says so only when it is asked.
type unflushable struct{ http.ResponseWriter }

func (unflushable) FlushError() error { return http.ErrNotSupported }

// A free status that follows a flush that has failed is no freer than any other.
func TestALateStatusAfterAFailedFlush(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		c.Advance(10 * time.Second)
		w.WriteHeader(http.StatusSeeOther)
	})).ServeHTTP(unflushable{httptest.NewRecorder()}, httptest.NewRequest(http.MethodPost, "/", nil))
	require.EqualValues(t, 4, failuresLeft(t, m, from("192.0.2.1")))
}

// flushless is a writer whose connection can be taken over, and which cannot flush.
type flushless struct{ http.ResponseWriter }

func (flushless) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func hijack(w http.ResponseWriter, _ *http.Request) { _, _, _ = w.(http.Hijacker).Hijack() }

// A log-in is limited by address and by account, and answers 303 in either case. What its
// handler says is heard by both policies: else the outer one would count no guess at all.
func TestWhatTheHandlerSaysIsHeardByAllPolicies(t *testing.T) {
	for _, right := range []bool{false, true} {
		c := new(clock)
		outer, inner := newLimiter(t, login(c)), newLimiter(t, login(c))
		h := outer.Handler(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			middleware.Charge(r, !right)
			w.WriteHeader(http.StatusSeeOther)
		})))
		for range 2 {
			require.Equal(t, http.StatusSeeOther, send(h).StatusCode)
		}
		want := int64(3)
		if right {
			want = 5
		}
		require.EqualValues(t, want, failuresLeft(t, inner))
		require.EqualValues(t, want, failuresLeft(t, outer))
	}
}
