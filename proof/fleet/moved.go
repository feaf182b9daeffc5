// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// Midnight is a boundary of every window that divides a day. Every clock that is moved by hand begins then.
var Midnight = time.Unix(20_000*86_400, 0)

// A Clock is moved by hand.
type Clock struct{ Offset atomic.Int64 }

// Now is the time to which it has been moved.
func (c *Clock) Now() time.Time { return Midnight.Add(time.Duration(c.Offset.Load())) }

// Advance moves it.
func (c *Clock) Advance(by time.Duration) { c.Offset.Add(int64(by)) }

// To moves it to a time since midnight.
func (c *Clock) To(since time.Duration) { c.Offset.Store(int64(since)) }

// Moved is a fleet of this process whose clock is moved by hand: the real middleware and its endpoints, without
// sockets. Its instances share nothing but the secret.
type Moved struct {
	Clock
	Site   middleware.Config // of the instances that start from now on
	Down   bool              // the exact counter is out of order
	AtOnce bool              // Together calls at once, as on real servers; else in order
	Failed error             // why an attacker could not do what it means to; without AtOnce that is a panic

	all      []http.Handler
	balanced atomic.Int64
}

// Secret is shared by the instances of a fleet alone.
var Secret = []byte("a secret that the simulation shares with no one else")

// New starts n instances of a site. What the site leaves open is the same for all fleets. An exact route without a
// counter gets one that can be out of order.
func New(n int, site middleware.Config) *Moved {
	f := &Moved{Site: site, all: make([]http.Handler, n)}
	c := &f.Site
	if site.Exact != nil && site.Exact.Counter == nil {
		c.Exact = &middleware.Exact{Counter: counter{memory.New(16, f.Now), f}, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
	}
	c.Policy, c.Secrets, c.Instances = cmp.Or(site.Policy, "api"), [][]byte{Secret}, int64(n)
	c.MaxClients = cmp.Or(site.MaxClients, 4096)
	c.Now, c.Logger = f.Now, slog.New(slog.DiscardHandler)
	f.Restart()
	return f
}

// Restart starts all instances anew. What they knew is gone.
func (f *Moved) Restart() {
	for i := range f.all {
		f.all[i] = f.start()
	}
}

// Scale starts or stops instances until there are n.
func (f *Moved) Scale(n int) {
	for len(f.all) < n {
		f.all = append(f.all, f.start())
	}
	f.all = f.all[:n]
}

func (f *Moved) start() http.Handler {
	m, err := middleware.New(f.Site)
	if err != nil {
		panic(err) // the configuration is the test's own
	}
	mux := http.NewServeMux()
	mux.Handle("/", m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/tally/", m.Endpoints())
	return mux
}

// A counter may be out of order.
type counter struct {
	exact.Counter
	f *Moved
}

func (c counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if c.f.Down {
		return exact.Verdict{}, errors.New("fleet: the counter is down")
	}
	return c.Counter.Take(ctx, call)
}

// Instances implements [Fleet].
func (f *Moved) Instances() int { return len(f.all) }

// Fail implements [Fleet].
func (f *Moved) Fail(err error) {
	if f.Failed = err; !f.AtOnce {
		panic(err)
	}
}

// Together implements [Fleet].
func (f *Moved) Together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		if f.AtOnce {
			all.Go(func() { do(i) })
		} else {
			do(i)
		}
	}
	all.Wait()
}

// Ask implements [Fleet]. The balancer takes the instances in turn.
func (f *Moved) Ask(r Request) Answer {
	if r.To == Balancer {
		r.To = int(f.balanced.Add(1)) % len(f.all)
	}
	path, header := cmp.Or(r.Path, "/"), r.Header()
	if r.Cost > 0 {
		header.Set("Cost", strconv.FormatInt(r.Cost, 10))
	}
	w := httptest.NewRecorder()
	f.all[r.To].ServeHTTP(w, &http.Request{
		Method: cmp.Or(r.Method, http.MethodPost), URL: &url.URL{Path: path}, RequestURI: path, Header: header, Host: "example.org",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: r.From,
	})
	return Answer{Status: w.Code, Header: w.Header()}
}

// CostOf is the Cost of sites where a request says how many it stands for; 1 if it does not.
func CostOf(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// V4 is the n-th address of IPv4, with a port.
func V4(n int) string { return fmt.Sprintf("198.%d.%d.%d:4711", 18+n>>16, n>>8&255, n&255) }

// V6 is an address in the n-th /64 of a /48. Those that follow each other are of another /56 each.
func V6(n int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:4711", n&255<<8|n>>8&255) }
