// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/http"
	"sync"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

func newHTTPRate(next http.Handler, t Terms) (*Instance, error) {
	key := func(r *http.Request) (string, error) { return peer(r), nil }
	return &Instance{Handler: httprate.LimitBy(t.Quota, t.Window, key)(next)}, nil
}

func newUlule(next http.Handler, t Terms) (*Instance, error) {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: t.Window, Limit: int64(t.Quota)})
	return &Instance{Handler: stdlib.NewMiddleware(l, stdlib.WithKeyGetter(peer)).Handler(next)}, nil
}

// newTollbooth cannot be told the key: it finds the address by itself and adds
// the path, which is the same for all.
func newTollbooth(next http.Handler, t Terms) (*Instance, error) {
	l := tollbooth.NewLimiter(t.perSecond(), nil)
	l.SetBurst(t.Quota).SetIPLookups([]string{"RemoteAddr"})
	return &Instance{Handler: tollbooth.LimitHandler(l, next)}, nil
}

func newGoLimiter(next http.Handler, t Terms) (*Instance, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(t.Quota), Interval: t.Window})
	if err != nil {
		return nil, err
	}
	m, err := httplimit.NewMiddleware(store, func(r *http.Request) (string, error) { return peer(r), nil })
	if err != nil {
		return nil, err
	}
	return &Instance{Handler: m.Handle(next)}, nil
}

// byPeer is how throttled asks for the key.
type byPeer struct{}

func (byPeer) Key(r *http.Request) string { return peer(r) }

func newThrottled(next http.Handler, t Terms) (*Instance, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(t.Quota, t.Window), MaxBurst: t.Quota - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	h := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: byPeer{}}
	return &Instance{Handler: h.RateLimit(next)}, nil
}

// A timeMap is what programs write that have nothing but x/time/rate: a bucket
// for each address in a map, never removed, and no field in any answer.
type timeMap struct {
	terms Terms
	next  http.Handler

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newTimeMap(next http.Handler, t Terms) (*Instance, error) {
	return &Instance{Handler: &timeMap{terms: t, next: next, buckets: make(map[string]*rate.Limiter)}}, nil
}

// ServeHTTP implements [http.Handler].
func (m *timeMap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.bucket(peer(r)).Allow() {
		http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
		return
	}
	m.next.ServeHTTP(w, r)
}

func (m *timeMap) bucket(key string) *rate.Limiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.buckets[key]
	if !ok {
		b = rate.NewLimiter(rate.Limit(m.terms.perSecond()), m.terms.Quota)
		m.buckets[key] = b
	}
	return b
}
