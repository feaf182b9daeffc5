// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/proof/program"
)

// limiters are those that all do the same work for the same terms: count each address by itself.
var limiters = map[string]builder{
	"bare":             func(*opening, terms) http.Handler { return served() },
	ourName:            ours(),
	lowest:             newFloor,
	reference:          newHTTPRate,
	"throttled":        newThrottled,
	"ulule":            newUlule,
	"go-limiter":       newGoLimiter,
	redisRate:          newRedisRate,
	ourName + "-peers": newPeers,
	ourName + "-redis": func(o *opening, t terms) http.Handler {
		return ours(exactly(o.redisCounter()))(o, t)
	},
}

// ours returns the builder of our middleware, as a program gets it that sets nothing but policy,
// limit and secret, but for a memory with room for all clients, and what with sets.
func ours(with ...func(*middleware.Config)) builder {
	return func(o *opening, t terms) http.Handler { return newOurs(o, t, with...).Handler(served()) }
}

func newOurs(o *opening, t terms, with ...func(*middleware.Config)) *middleware.Middleware {
	cfg := middleware.Config{
		Policy: policy, Limits: []middleware.Limit{{Quota: int64(t.quota), Window: t.window}}, Secrets: [][]byte{secret()},
		Logger: slog.New(slog.DiscardHandler), // a full memory says so once a minute
		Now:    o.now, OnDecision: o.tell, MaxClients: roomy(t.clients),
	}
	for _, f := range with {
		f(&cfg)
	}
	return must(middleware.New(cfg))
}

// exactly has a counter decide. Its deadline is long: late is no outage here.
func exactly(c exact.Counter) func(*middleware.Config) {
	return func(cfg *middleware.Config) {
		cfg.Exact = &middleware.Exact{Counter: c, Outage: middleware.FailClosed, Deadline: time.Second}
	}
}

// newPeers is ours, with peers. It is the only member until it is told of others.
func newPeers(o *opening, t terms) http.Handler {
	self := cmp.Or(o.self, net.JoinHostPort("127.0.0.1", must(program.FreePort())))
	var list atomic.Pointer[[]string]
	list.Store(&[]string{self})
	group := must(peers.Open(peers.Config{
		Self: self, Find: func(context.Context) ([]string, error) { return *list.Load(), nil },
		Secrets: [][]byte{secret()}, Logger: slog.New(slog.DiscardHandler),
	}))
	o.closing(func() error { return group.Close(context.Background()) })
	o.members = func(members []string) {
		for list.Store(&members); len(group.Stats().Heard) < len(members)-1; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return ours(func(cfg *middleware.Config) { cfg.Peers = group })(o, t)
}

func newHTTPRate(_ *opening, t terms) http.Handler {
	return httprate.LimitBy(t.quota, t.window, func(r *http.Request) (string, error) { return peer(r), nil })(served())
}

func newUlule(_ *opening, t terms) http.Handler {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: t.window, Limit: int64(t.quota)})
	return stdlib.NewMiddleware(l, stdlib.WithKeyGetter(peer)).Handler(served())
}

func newGoLimiter(_ *opening, t terms) http.Handler {
	store := must(memorystore.New(&memorystore.Config{Tokens: uint64(t.quota), Interval: t.window}))
	return must(httplimit.NewMiddleware(store, func(r *http.Request) (string, error) { return peer(r), nil })).Handle(served())
}

// byPeer is how throttled asks for the key.
type byPeer struct{}

func (byPeer) Key(r *http.Request) string { return peer(r) }

func newThrottled(_ *opening, t terms) http.Handler {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(t.quota, t.window), MaxBurst: t.quota - 1}
	l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(0)), quota))
	l.SetMaxCASAttemptsLimit(1 << 20) // of 10, as it is by default, two processors at one key run out: 500
	h := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: byPeer{}}
	return h.RateLimit(served())
}

// redisClient has the library's defaults, as users of such limiters have it.
func (o *opening) redisClient() *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: o.redis})
	o.closing(client.Close)
	return client
}

// redisCounter is ours, on the server that has been started.
func (o *opening) redisCounter() engine.ArchiveCloser {
	c := must(redis.Open("redis://"+o.redis+"/0", redis.Config{}))
	o.closing(c.Close)
	return c
}

// newRedisRate limits by redis_rate. The library has no middleware; this one sends the fields that
// those of the others send.
func newRedisRate(o *opening, t terms) http.Handler {
	l := redis_rate.NewLimiter(o.redisClient())
	limit := redis_rate.Limit{Rate: t.quota, Burst: t.quota, Period: t.window}
	seconds := func(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
	next := served()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := l.Allow(r.Context(), peer(r), limit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("X-RateLimit-Limit", strconv.Itoa(limit.Burst))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(result.Remaining))
		h.Set("X-RateLimit-Reset", seconds(result.ResetAfter))
		if result.Allowed == 0 {
			h.Set("Retry-After", seconds(result.RetryAfter))
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
