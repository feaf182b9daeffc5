// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// pipes are a listener without a network: in a bubble its clock tells how long a connection lasts. Make them with
// newPipes, in the bubble.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
	close  func()
}

// newPipes returns a listener for one server.
func newPipes() *pipes {
	closed := make(chan struct{})
	return &pipes{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

// Dial returns a connection once the server accepts it.
func (p *pipes) Dial() net.Conn {
	here, there := net.Pipe()
	p.dialed <- there
	return here
}

// Accept implements [net.Listener].
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *pipes) Close() error { p.close(); return nil }

// Addr implements [net.Listener].
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A piped server is one of net/http whose connections are pipes: time is virtual in its bubble.
type piped struct {
	*pipes
	asked atomic.Int64 // requests
}

// pipe serves a counter, and returns a caller of it.
func pipe(t *testing.T, counter exact.Counter) (*piped, engine.CounterCloser) {
	t.Helper()
	p := &piped{pipes: newPipes()}
	h := kit.Must(remote.Serve(counter, secrets))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		h.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(p) }()
	to := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.Dial(), nil }, MaxIdleConnsPerHost: 64}
	cfg := secrets
	cfg.Transport = to
	t.Cleanup(func() {
		to.CloseIdleConnections()
		_ = server.Close()
		time.Sleep(time.Second) // net/http looks after connections that it has closed for this time
	})
	return p, open(t, cfg, "http://owner/")
}

// A taking counter takes calls as it is told.
type taking struct {
	exact.Counter
	take    func(ctx context.Context, call exact.Call) (exact.Verdict, error)
	refunds error // nil: the counter's
}

func (c taking) Refund(ctx context.Context, r exact.Receipt) error {
	if c.refunds != nil {
		return c.refunds
	}
	return c.Counter.Refund(ctx, r)
}

func (c taking) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.take(ctx, call)
}

// after is a counter in memory whose calls take d.
func after(d func(exact.Call) time.Duration) taking {
	m := memory.New(0, nil)
	return taking{Counter: m, take: func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
		select {
		case <-time.After(d(call)):
			return m.Take(ctx, call)
		case <-ctx.Done():
			return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
		}
	}}
}

// A burst of callers asks an owner whose counter takes a while, of one key or of many. What they
// ask together takes no longer than what one asks.
func TestABurstOverASlowCounter(t *testing.T) {
	for _, keys := range []int{1, 64} {
		kit.RunBubble(t, fmt.Sprint(keys, " keys"), func(t *testing.T) {
			_, c := pipe(t, after(func(exact.Call) time.Duration { return 5 * time.Millisecond }))
			p := exactkit.PerHour(t, 1<<30)
			var passed, failed atomic.Int64
			kit.Together(64, func(n int) {
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					if _, err := c.Take(ctx, exact.Call{Key: fmt.Sprint(n % keys), Cost: 1, Policy: p}); err != nil {
						failed.Add(1)
					} else {
						passed.Add(1)
					}
					cancel()
				}
			})
			t.Logf("%d passed, %d failed", passed.Load(), failed.Load())
			require.Zero(t, failed.Load())
			require.Greater(t, passed.Load(), int64(64*80), "each of them makes a call in two round trips at most")
		})
	}
}

// Calls for many keys leave together. One that is slow holds up none of them, nor those that
// come after.
func TestASlowKeyHoldsUpNoOther(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		server, c := pipe(t, after(func(call exact.Call) time.Duration {
			if call.Key == "slow" {
				return 40 * time.Millisecond
			}
			return time.Millisecond
		}))
		p := exactkit.PerHour(t, 1<<30)
		var wg sync.WaitGroup
		ask := func(key string, most time.Duration) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				began := time.Now()
				v, err := c.Take(ctx, exact.Call{Key: key, Cost: 1, Policy: p})
				if err != nil || !v.Admitted || time.Since(began) > most {
					t.Errorf("%s, after %s: %v %v", key, time.Since(began), v.Admitted, err)
				}
			})
		}
		for round := range 10 {
			ask("first", 2*time.Millisecond)
			synctest.Wait()
			for n := range 20 {
				ask(fmt.Sprint(n), 10*time.Millisecond)
			}
			ask("slow", 45*time.Millisecond)
			time.Sleep(5 * time.Millisecond)
			for n := range 20 {
				ask(fmt.Sprint("later ", n), 20*time.Millisecond)
			}
			wg.Wait()
			require.LessOrEqual(t, server.asked.Load(), int64(6*(round+1)))
		}
	})
}

// Each call of those that leave together has an outcome of its own.
func TestCallsOfOneRequestFailAlone(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		m := memory.New(0, nil)
		server, c := pipe(t, taking{Counter: m, take: func(ctx context.Context, call exact.Call) (exact.Verdict, error) {
			time.Sleep(time.Millisecond)
			switch call.ID[:4] {
			case "full":
				return exact.Verdict{}, exact.ErrFull
			case "mayb":
				return exact.Verdict{}, fmt.Errorf("%w: cut", exact.ErrMaybeCounted)
			case "hang":
				<-ctx.Done()
				return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrNotCounted, ctx.Err())
			case "dies":
				panic("an engine")
			}
			return m.Take(ctx, call)
		}})
		p := exactkit.PerHour(t, 1000)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for n := range 50 {
			wg.Go(func() { // a peek is not charged
				if v, err := c.Peek(ctx, exact.Call{Key: "k", Cost: 1, Policy: p}); err != nil || v.Receipt.Policy != nil {
					t.Errorf("a look: %v %v", v, err)
				}
			})
			for what, want := range map[string]error{"good": nil, "full": exact.ErrFull, "mayb": exact.ErrMaybeCounted, "hang": exact.ErrNotCounted, "dies": exact.ErrMaybeCounted} {
				key := "k"
				if n >= 40 {
					key += what
				}
				wg.Go(func() {
					v, err := c.Take(ctx, exact.Call{Key: key, Cost: 1, Policy: p, ID: fmt.Sprint(what, n)})
					if what == "hang" && err != nil { // its own end may come first
						return
					}
					if !errors.Is(err, want) || v.Admitted != (want == nil) {
						t.Errorf("%s %d: %v %v", what, n, v.Admitted, err)
					}
				})
			}
		}
		wg.Wait()
		for key, used := range map[string]int64{"k": 40, "kgood": 10, "kmayb": 0} {
			require.EqualValues(t, 1000-used, exactkit.Left(t, c, exact.Call{Key: key, Cost: 1, Policy: p}), key)
		}
		require.LessOrEqual(t, server.asked.Load(), int64(10))
	})
}

// Calls that leave together are charged what each costs, and what is given back by many at once
// comes back once for each receipt.
func TestRefundsLeaveTogether(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		server, c := pipe(t, memory.New(0, nil))
		p := exactkit.PerHour(t, 1000)
		var wg sync.WaitGroup
		var back, refused atomic.Int64
		for n := range 60 {
			wg.Go(func() {
				v, err := c.Take(t.Context(), exact.Call{Key: fmt.Sprint(n % 3), Cost: 5 + int64(n%2), Policy: p})
				if err != nil {
					t.Error(err)
				}
				v.Receipt.Cost = 2
				for range 2 {
					wg.Go(func() {
						switch err := c.Refund(t.Context(), v.Receipt); {
						case err == nil:
							back.Add(1)
						case errors.Is(err, exact.ErrNoRefund):
							refused.Add(1)
						}
					})
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 60, back.Load())
		require.EqualValues(t, 60, refused.Load())
		for n := range 3 {
			require.EqualValues(t, 1000-10*(3+4), exactkit.Left(t, c, exact.Call{Key: fmt.Sprint(n), Cost: 1, Policy: p}))
		}
		require.LessOrEqual(t, server.asked.Load(), int64(60), "of 183 calls")
	})
}

// A caller that gives up before its call has left was not counted; one that does after may have
// been. The others of the request are not cut.
func TestWhoGivesUpAmongOthers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		_, c := pipe(t, after(func(exact.Call) time.Duration { return 20 * time.Millisecond }))
		p := exactkit.PerHour(t, 100)
		var wg sync.WaitGroup
		ask := func(key string, patient time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patient)
				defer cancel()
				if _, err := c.Take(ctx, exact.Call{Key: key, Cost: 1, Policy: p}); !errors.Is(err, want) {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
		for _, key := range []string{"first", "patient"} { // the second says when all leave that wait
			ask(key, time.Second, nil)
			synctest.Wait()
		}
		ask("gone", 100*time.Microsecond, exact.ErrNotCounted)
		ask("hasty", 15*time.Millisecond, exact.ErrMaybeCounted)
		wg.Wait()
		for key, used := range map[string]int64{"patient": 1, "gone": 0} {
			require.EqualValues(t, 100-used, exactkit.Left(t, c, exact.Call{Key: key, Cost: 1, Policy: p}), key)
		}
	})
}

// Callers that have no deadline take their request with them when the last of them goes, or an
// owner that hangs would hold it for good; the others of it are not cut before.
func TestARequestEndsWithItsLastCaller(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var out atomic.Int64
		cfg := secrets
		cfg.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			out.Add(1)
			defer out.Add(-1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c, p := open(t, cfg, "http://owner/"), exactkit.PerHour(t, 100)
		ask := func(key string, d time.Duration) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			if d > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), d)
			}
			go func() { _, _ = c.Take(ctx, exact.Call{Key: key, Cost: 1, Policy: p}) }()
			synctest.Wait()
			return cancel
		}
		first, hasty, slow, last := ask("a", 0), ask("b", time.Second), ask("c", 0), ask("b", 0)
		defer hasty()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 2, out.Load(), "the first went alone, the others together")
		first()
		last()
		synctest.Wait()
		require.EqualValues(t, 1, out.Load(), "one still waits")
		slow()
		synctest.Wait()
		require.Zero(t, out.Load())
	})
}

// A body that does not come is not waited for: not at all without a secret, and no longer than a
// caller waits for an answer where an attacker replays a recorded call.
func TestABodyThatDoesNotCome(t *testing.T) {
	body := strings.Repeat("x", 128<<10)
	for what, c := range map[string]struct {
		header http.Header
		length int
		status int
		most   time.Duration
	}{
		"without a secret":     {http.Header{"Tallystick-Mac": {"x"}}, len(body), http.StatusUnauthorized, 0},
		"recorded":             {signedBy(secret("a"), body), len(body), http.StatusBadRequest, 10 * time.Second},
		"recorded, and longer": {signedBy(secret("a"), body), 1 << 40, http.StatusBadRequest, 10 * time.Second},
	} {
		kit.RunBubble(t, what, func(t *testing.T) {
			server, _ := pipe(t, memory.New(1, nil))
			kit.Together(50, func(int) {
				conn, began := server.Dial(), time.Now()
				defer conn.Close()
				_ = conn.SetReadDeadline(time.Now().Add(time.Hour))
				go func() {
					var head strings.Builder
					fmt.Fprintf(&head, "POST / HTTP/1.1\r\nHost: owner\r\nContent-Length: %d\r\n", c.length)
					_ = c.header.Write(&head)
					_, _ = conn.Write([]byte(head.String() + "\r\n" + body[1:])) // until it is closed
				}()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Error("it is waited for: ", err)
					return
				}
				_ = resp.Body.Close()
				if took := time.Since(began); resp.StatusCode != c.status || took > c.most || !resp.Close {
					t.Errorf("status %d after %s; it is closed: %v", resp.StatusCode, took, resp.Close)
				}
			})
		})
	}
}
