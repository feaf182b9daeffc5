// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// served sends requests of n clients at once, has none end before the last is decided, and returns how many were served.
func served(t testing.TB, m *middleware.Middleware, n int, who func(i int) option, serve http.HandlerFunc) int64 {
	t.Helper()
	hold := make(chan struct{})
	var served atomic.Int64
	var decided sync.WaitGroup
	decided.Add(n)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		decided.Done()
		<-hold
		serve(w, r)
	}))
	go func() {
		decided.Wait()
		close(hold)
	}()
	inParallel(n, func(i int) {
		if resp := send(h, who(i)); resp.StatusCode == http.StatusTooManyRequests {
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			decided.Done()
		}
	})
	return served.Load()
}

// one is the client of most tests, whoever asks.
func one(int) option { return from("203.0.113.1") }

// A thousand wrong passwords at once, each of which is still being hashed when the last is
// decided: at most L are tried on each instance, and exactly L are counted.
func TestOutcomeOfAThousandWrongPasswords(t *testing.T) {
	for range 2 {
		m := newLimiter(t, login(new(clock)))
		require.EqualValues(t, 5, served(t, m, 1000, one, passwords))
		require.Zero(t, failuresLeft(t, m))
	}
}

// Twenty log-ins a minute behind one address, each of 0.3 s and all of them right, echo any
// token that any of them was ever sent. With reservations in tokens 8 % of them were refused.
func TestOutcomeOfRightPasswordsLeavesNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := login(new(clock))
		cfg.Now = nil
		cfg.Limits[1].Window = 15 * time.Minute
		m := newLimiter(t, cfg)
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(300 * time.Millisecond)
			passwords(w, r)
		}))
		var (
			mu      sync.Mutex
			tokens  []string
			refused int
			all     sync.WaitGroup
		)
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 20 * 60 {
			time.Sleep(time.Duration(rnd.ExpFloat64() * float64(3*time.Second)))
			mu.Lock()
			tok := ""
			if len(tokens) > 0 {
				tok = tokens[rnd.IntN(len(tokens))]
			}
			mu.Unlock()
			all.Go(func() {
				resp := send(h, right, showing(tok))
				mu.Lock()
				defer mu.Unlock()
				tokens = append(tokens, resp.Header.Get(middleware.TokenHeader))
				if resp.StatusCode != http.StatusSeeOther {
					refused++
				}
			})
		}
		all.Wait()
		require.Zero(t, refused)
		require.EqualValues(t, 5, failuresLeft(t, m))
		for i := 0; i < len(tokens); i += 25 {
			require.EqualValues(t, 5, failuresLeft(t, newLimiter(t, cfg), showing(tokens[i])), "no token says more")
		}
		synctest.Wait()
	})
}

// Five connections that send a byte of the form in ten seconds.
func TestOutcomeOfSlowSocketsIsCharged(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	var waiting, done sync.WaitGroup
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			defer done.Done()
			waiting.Done()
			_, _ = r.Body.Read(make([]byte, 1))
			_, _ = r.Body.Read(make([]byte, 1))
			w.WriteHeader(http.StatusSeeOther) // right after all
		}
	}))
	server := serve(t, h)
	var slow []net.Conn
	waiting.Add(5)
	done.Add(5)
	for range 5 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: login\r\nX-Slow: 1\r\nContent-Length: 100\r\n\r\np")
		require.NoError(t, err)
		slow = append(slow, conn)
	}
	waiting.Wait()
	local := from("127.0.0.1")
	require.Zero(t, failuresLeft(t, m, local), "they hold all of it")
	c.Advance(10 * time.Second)
	require.Zero(t, failuresLeft(t, m, local), "and are charged then")
	earlier := earned(t, login(c), local)
	tok := send(m.Handler(http.HandlerFunc(passwords)), local, showing(earlier)).Header.Get(middleware.TokenHeader)
	require.Zero(t, failuresLeft(t, newLimiter(t, login(c)), local, showing(tok)), "which tokens say")
	c.Advance(50 * time.Second)
	require.EqualValues(t, 5, failuresLeft(t, m, local), "no longer than five wrong passwords")
	for _, conn := range slow {
		_, err := fmt.Fprint(conn, strings.Repeat("p", 99))
		require.NoError(t, err)
	}
	done.Wait()
	require.EqualValues(t, 5, failuresLeft(t, m, local))
}

// What was held for too long counts from when it was due, also if nobody asked for an hour.
func TestOutcomeIsChargedWhenItIsDue(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			c.Advance(time.Hour)
		}
		passwords(w, r)
	}))
	resp := send(h, with("X-Slow", "1"))
	require.EqualValues(t, 5, failuresLeft(t, m))
	require.EqualValues(t, 5, failuresLeft(t, newLimiter(t, login(c)), showing(resp.Header.Get(middleware.TokenHeader))))
}

// What is overdue is charged before something is settled, so that counts change in the order of
// time: what was settled in this minute is not lost to a request that hangs since the last.
func TestOutcomeThatIsOverdueIsChargedBeforeASettlement(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	came, goes := make(chan struct{}), make(chan struct{})
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Slow") != "" {
			close(came)
			<-goes
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		c.Advance(20 * time.Second)
		require.NoError(t, middleware.Settle(r, 3))
	}))
	c.Advance(44 * time.Second)
	var slow sync.WaitGroup
	slow.Go(func() { send(h, with("X-Slow", "1")) })
	<-came
	c.Advance(6 * time.Second)
	send(h)
	left := failuresLeft(t, m)
	close(goes)
	slow.Wait()
	require.EqualValues(t, 3, left, "two more were settled in this minute")
}

// What was counted by its outcome is given back in the window in which it was counted, and not in
// that in which the request came.
func TestOutcomeIsSettledWhereItWasCharged(t *testing.T) {
	c := new(clock)
	m := newLimiter(t, login(c))
	c.Advance(57 * time.Second)
	send(m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.Advance(6 * time.Second)
		w.WriteHeader(http.StatusUnauthorized)
		require.NoError(t, middleware.Settle(r, 0))
	})))
	require.EqualValues(t, 5, failuresLeft(t, m))
}

// The networks of an IPv6 address hold and count too: else 256 neighbours of a /56 would
// try 256 times as much at once.
func TestOutcomeOfANetwork(t *testing.T) {
	m := newLimiter(t, login(new(clock)))
	neighbour := func(i int) option { return from(fmt.Sprintf("2001:db8:0:%x::1", i)) }
	require.EqualValues(t, 40, served(t, m, 100, neighbour, passwords), "8L")
	require.Zero(t, failuresLeft(t, m, neighbour(0xff)))
	require.EqualValues(t, 5, failuresLeft(t, m, neighbour(0x100)))
}

// TestOutcomeOracle: requests of every kind, all at once, which show any token that any of them has got, are counted
// as one after the other would be. What is given back after it was charged is in the tokens that others got
// meanwhile, and counts on with those who show them (docs/api.md): such requests are among those that show none.
func TestOutcomeOracle(t *testing.T) {
	for _, echo := range []bool{false, true} {
		t.Run(fmt.Sprintf("echo %t", echo), func(t *testing.T) { outcomeOracle(t, echo) })
	}
}

func outcomeOracle(t *testing.T, echo bool) {
	c := new(clock)
	cfg := login(c)
	cfg.Limits[0].Quota, cfg.Limits[1].Quota = 1<<30, 1<<30
	m := newLimiter(t, cfg)
	var counted atomic.Int64
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counts := int64(0)
		defer func() { counted.Add(counts) }()
		switch rand.IntN(8) {
		case 0:
			counts = 1
		case 1:
			w.WriteHeader(http.StatusSeeOther)
		case 2:
			counts = 1
			w.WriteHeader(http.StatusSeeOther)
			panic(http.ErrAbortHandler)
		case 3:
			middleware.Charge(r, false)
			w.WriteHeader(http.StatusUnauthorized)
		case 4:
			counts = 1
			w.WriteHeader(http.StatusSeeOther)
			middleware.Charge(r, true)
		case 5:
			counts = rand.Int64N(5)
			_ = middleware.Settle(r, counts)
			w.WriteHeader(http.StatusUnauthorized)
		case 6:
			middleware.Charge(r, true)
			if counts = 1; !echo {
				counts = 0
				_ = middleware.Refund(w, r)
			}
		case 7:
			counts = 1
			var both sync.WaitGroup
			both.Go(func() { middleware.Charge(r, true) })
			both.Go(func() { w.WriteHeader(http.StatusSeeOther) })
			both.Wait()
		}
	}))
	var tokens sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 300 {
				tok, _ := tokens.Load(rand.IntN(8))
				text, _ := tok.(string)
				if !echo {
					text = ""
				}
				func() {
					defer func() { _ = recover() }()
					resp := send(h, showing(text))
					require.NotEqual(t, http.StatusTooManyRequests, resp.StatusCode)
					if n%3 == 0 {
						tokens.Store(i, resp.Header.Get(middleware.TokenHeader))
					}
				}()
			}
		})
	}
	all.Wait()
	require.Equal(t, 1<<30-counted.Load(), failuresLeft(t, m))
}
