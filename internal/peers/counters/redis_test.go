package counters_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/storeless"
)

// served are those that need a server; PING is the floor of them all.
var served = []struct {
	name string
	open func(b *testing.B, addr string) take
}{
	{"ours", func(b *testing.B, addr string) take { return ours(b, openRedis(b, addr)) }},
	{"ours/leased", func(b *testing.B, addr string) take {
		l, err := exact.Lease(openRedis(b, addr), exact.LeaseConfig{})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, l.Close()) })
		return ours(b, l)
	}},
	{"ours/three-limits", func(b *testing.B, addr string) take {
		c := openRedis(b, addr)
		p, err := exact.Compile("bench", []storeless.Limit{
			{Name: "burst", Algorithm: storeless.TokenBucket, Quota: 1 << 20, Window: time.Second},
			{Name: "hour", Quota: storeless.MaxQuota, Window: time.Hour},
			{Name: "day", Algorithm: storeless.RollingDay, Quota: storeless.MaxQuota, Window: 24 * time.Hour}})
		require.NoError(b, err)
		return func(key string) (bool, error) {
			v, err := c.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p})
			return v.Admitted, err
		}
	}},
	{"redis_rate", func(b *testing.B, addr string) take {
		client := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, PoolSize: 16})
		b.Cleanup(func() { require.NoError(b, client.Close()) })
		limiter := redis_rate.NewLimiter(client)
		return func(key string) (bool, error) {
			r, err := limiter.Allow(context.Background(), key, redis_rate.PerSecond(1<<20))
			if err != nil {
				return false, err
			}
			return r.Allowed == 1, nil
		}
	}},
	{"ping/rueidis", func(b *testing.B, addr string) take {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: true})
		require.NoError(b, err)
		b.Cleanup(client.Close)
		return func(string) (bool, error) {
			return true, client.Do(context.Background(), client.B().Ping().Build()).Error()
		}
	}},
	{"ping/go-redis", func(b *testing.B, addr string) take {
		client := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, PoolSize: 16})
		b.Cleanup(func() { require.NoError(b, client.Close()) })
		return func(string) (bool, error) { return true, client.Ping(context.Background()).Err() }
	}},
}

func openRedis(b *testing.B, addr string) *redis.Counter {
	c, err := redis.Open("redis://"+addr+"/0", redis.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c
}

func BenchmarkRedis(b *testing.B) {
	addr, stop, err := peers.StartRedis(b.Context())
	if errors.Is(err, peers.ErrNoRedis) {
		b.Skip(err)
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, stop()) })
	admin := goredis.NewClient(&goredis.Options{Addr: addr})
	b.Cleanup(func() { require.NoError(b, admin.Close()) })
	require.Eventually(b, func() bool { return admin.Ping(context.Background()).Err() == nil }, 5*time.Minute, 10*time.Millisecond)
	for _, keys := range []int{1, 10_000} {
		for _, callers := range []int{1, 16, 128} {
			for _, e := range served {
				b.Run(fmt.Sprintf("keys=%d/callers=%d/%s", keys, callers, e.name), func(b *testing.B) {
					take := e.open(b, addr)
					_, err := take("warm")
					require.NoError(b, err)
					before := commands(b, admin)
					run(b, callers, keys, take)
					b.ReportMetric(float64(commands(b, admin)-before)/float64(b.N), "commands/call")
				})
			}
		}
	}
}

// commands says how many commands clients have sent: those of scripts are not counted.
func commands(b *testing.B, admin *goredis.Client) (n int64) {
	info, err := admin.Info(context.Background(), "commandstats").Result()
	require.NoError(b, err)
	for line := range strings.SplitSeq(info, "\r\n") {
		for _, sent := range []string{"cmdstat_evalsha:", "cmdstat_eval:", "cmdstat_ping:"} {
			if about, ok := strings.CutPrefix(line, sent); ok {
				calls, _, _ := strings.Cut(strings.TrimPrefix(about, "calls="), ",")
				c, err := strconv.ParseInt(calls, 10, 64)
				require.NoError(b, err)
				n += c
			}
		}
	}
	return n
}
