// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// newRedisRate limits by redis_rate over a Redis of its own. The library has no
// middleware; this one sends the fields that those of the others send.
func newRedisRate(next http.Handler, t Terms) (*Instance, error) {
	server, err := StartRedis(context.Background())
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.addr})
	stop := func() error { return errors.Join(client.Close(), server.Stop()) }
	if err := Answering(client); err != nil {
		return nil, errors.Join(err, stop())
	}
	l := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: t.Quota, Burst: t.Quota, Period: t.Window}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	return &Instance{Handler: h, close: stop, ServerBytes: func() (int64, error) { return UsedMemory(client) }}, nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// Answering waits until the server answers.
func Answering(client *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		err := client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// UsedMemory returns what the server has allocated, in bytes.
func UsedMemory(client *redis.Client) (int64, error) {
	info, err := client.Info(context.Background(), "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, errors.New("redis-server does not tell its used_memory")
}
