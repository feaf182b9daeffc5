// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/peers"
)

// limiters all do the same work for the same terms: they count the requests of each address.
var limiters = map[string]builder{
	bare:               func(*opening, terms) http.Handler { return served() },
	ourName:            ours(),
	lowest:             newFloor,
	ourName + "-peers": newPeers,
	ourName + "-redis": func(o *opening, t terms) http.Handler {
		return ours(func(cfg *middleware.Config) { // the deadline is long, because a late answer is no outage here
			cfg.Exact = &middleware.Exact{Counter: o.redisCounter(), Outage: middleware.FailClosed, Deadline: time.Second}
		})(o, t)
	},
	reference: func(_ *opening, t terms) http.Handler {
		return httprate.LimitBy(t.quota, t.window, keyOf)(served())
	},
	"throttled": func(_ *opening, t terms) http.Handler {
		quota := throttled.RateQuota{MaxRate: throttled.PerDuration(t.quota, t.window), MaxBurst: t.quota - 1}
		l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(0)), quota))
		l.SetMaxCASAttemptsLimit(1 << 20) // with the default of 10, two processors at one key get a 500
		h := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: byPeer{}}
		return h.RateLimit(served())
	},
	"ulule": func(_ *opening, t terms) http.Handler {
		l := limiter.New(memory.NewStore(), limiter.Rate{Period: t.window, Limit: int64(t.quota)})
		return stdlib.NewMiddleware(l, stdlib.WithKeyGetter(byPeer{}.Key)).Handler(served())
	},
	"go-limiter": func(_ *opening, t terms) http.Handler {
		store := must(memorystore.New(&memorystore.Config{Tokens: uint64(t.quota), Interval: t.window}))
		return must(httplimit.NewMiddleware(store, keyOf)).Handle(served())
	},
	redisRate: newRedisRate,
}

// keyOf returns the key that all limiters use.
func keyOf(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return host, err
}

// byPeer is the same for limiters whose keys have no error.
type byPeer struct{}

func (byPeer) Key(r *http.Request) string { return must(keyOf(r)) }

// ours returns the builder of our middleware with the configuration of a program that sets only policy, limit and secret. The
// memory has room for all clients, and with may change more.
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

// newPeers builds our middleware with peers, and waits until it has heard all of them.
func newPeers(o *opening, t terms) http.Handler {
	group := must(peers.Open(peers.Config{
		Self: o.members[0], Find: func(context.Context) ([]string, error) { return o.members, nil },
		Secrets: [][]byte{secret()}, Logger: slog.New(slog.DiscardHandler),
	}))
	o.closing(func() error { return group.Close(context.Background()) })
	for len(group.Stats().Heard) < len(o.members)-1 {
		time.Sleep(10 * time.Millisecond)
	}
	return ours(func(cfg *middleware.Config) { cfg.Peers = group })(o, t)
}

// redisCounter opens our counter on the Redis of the row.
func (o *opening) redisCounter() engine.ArchiveCloser {
	c := must(redis.Open("redis://"+o.redis+"/0", redis.Config{}))
	o.closing(c.Close)
	return c
}

// newRedisRate limits by redis_rate. The library has no middleware; this one sends the same fields as the other limiters.
func newRedisRate(o *opening, t terms) http.Handler {
	l, limit := redis_rate.NewLimiter(o.redisClient()), redis_rate.Limit{Rate: t.quota, Burst: t.quota, Period: t.window}
	seconds := func(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := l.Allow(r.Context(), byPeer{}.Key(r), limit)
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
		served().ServeHTTP(w, r)
	})
}
