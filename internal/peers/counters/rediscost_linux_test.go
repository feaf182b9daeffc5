package counters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// BenchmarkRedisCost says what a call of a lone caller costs, as CPU time of the server and
// of this process, which a busy machine does not falsify as it does a clock. The counters
// take turns, some hundred calls each, so that what disturbs one disturbs all. An iteration
// is a turn of each:
//
//	go test -run '^$' -bench RedisCost -benchtime 100x ./counters
func BenchmarkRedisCost(b *testing.B) {
	const calls = 500 // in a turn
	addr, stop, err := peers.StartRedis(b.Context())
	if errors.Is(err, peers.ErrNoRedis) {
		b.Skip(err)
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, stop()) })
	admin := goredis.NewClient(&goredis.Options{Addr: addr})
	b.Cleanup(func() { require.NoError(b, admin.Close()) })
	require.Eventually(b, func() bool { return admin.Ping(context.Background()).Err() == nil }, 5*time.Minute, 10*time.Millisecond)
	thread := serverThread(b, admin)

	contenders := []struct {
		name string
		take take
	}{
		{"ours", slidingOf(b, openRedis(b, addr), false)},
		{"ours/id", slidingOf(b, openRedis(b, addr), true)},
	}
	for _, e := range served {
		if e.name == "ours/three-limits" || e.name == "redis_rate" || strings.HasPrefix(e.name, "ping/") {
			contenders = append(contenders, struct {
				name string
				take take
			}{e.name, e.open(b, addr)})
		}
	}
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprint("customer-", keys, "-", i)
			}
			type spent struct {
				server, client time.Duration
				took           []time.Duration
			}
			sum := make([]spent, len(contenders))
			for turn := range b.N {
				for i, c := range contenders {
					server, client := onCPU(b, thread), ownCPU(b)
					for n := range calls {
						began := time.Now()
						_, err := c.take(names[(turn*calls+n)*7919%keys])
						sum[i].took = append(sum[i].took, time.Since(began))
						require.NoError(b, err)
					}
					sum[i].server += onCPU(b, thread) - server
					sum[i].client += ownCPU(b) - client
				}
			}
			for i, c := range contenders {
				slices.Sort(sum[i].took)
				of := time.Duration(len(sum[i].took))
				b.Logf("%-18s server %5.1f µs, client %5.1f µs, p50 %5.1f µs, p99 %6.1f µs", c.name,
					float64(sum[i].server/of)/1e3, float64(sum[i].client/of)/1e3,
					float64(sum[i].took[of/2])/1e3, float64(sum[i].took[of*99/100])/1e3)
			}
		})
	}
}

// slidingOf takes of one sliding window, with an ID for each call or without.
func slidingOf(b *testing.B, c exact.Counter, id bool) take {
	p, err := exact.Compile("sliding", []storeless.Limit{{Quota: storeless.MaxQuota, Window: time.Hour}})
	require.NoError(b, err)
	n := 0
	return func(key string) (bool, error) {
		call := exact.Call{Key: key, Cost: 1, Policy: p}
		if id {
			n++
			call.ID = fmt.Sprintf("%022d", n)
		}
		v, err := c.Take(context.Background(), call)
		return v.Admitted, err
	}
}

// BenchmarkRedisBytes says what a key takes on the server that has one limit and was charged
// once.
func BenchmarkRedisBytes(b *testing.B) {
	addr, stop, err := peers.StartRedis(b.Context())
	if errors.Is(err, peers.ErrNoRedis) {
		b.Skip(err)
	}
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, stop()) })
	admin := goredis.NewClient(&goredis.Options{Addr: addr})
	b.Cleanup(func() { require.NoError(b, admin.Close()) })
	require.Eventually(b, func() bool { return admin.Ping(context.Background()).Err() == nil }, 5*time.Minute, 10*time.Millisecond)
	c := openRedis(b, addr)
	redisRate := served[slices.IndexFunc(served, func(e struct {
		name string
		open func(b *testing.B, addr string) take
	}) bool {
		return e.name == "redis_rate"
	})].open(b, addr)
	for name, take := range map[string]take{"ours": slidingOf(b, c, false), "ours/id": slidingOf(b, c, true), "redis_rate": redisRate} {
		b.Run(name, func(b *testing.B) {
			require.NoError(b, admin.FlushAll(context.Background()).Err())
			const keys = 1 << 14 // as many as the table of keys has places then
			before := usedMemory(b, admin)
			for i := range keys {
				_, err := take("customer-" + strconv.Itoa(i))
				require.NoError(b, err)
			}
			b.ReportMetric(float64(usedMemory(b, admin)-before)/keys, "bytes/key")
		})
	}
}

func usedMemory(b *testing.B, admin *goredis.Client) int64 {
	return infoOf(b, admin, "memory", "used_memory")
}

// serverThread is the file that says how long the one thread of the server that runs
// commands was on a CPU.
func serverThread(b *testing.B, admin *goredis.Client) string {
	id := infoOf(b, admin, "server", "process_id")
	return fmt.Sprintf("/proc/%d/task/%d/schedstat", id, id)
}

func infoOf(b *testing.B, admin *goredis.Client, section, field string) int64 {
	info, err := admin.Info(context.Background(), section).Result()
	require.NoError(b, err)
	_, info, found := strings.Cut(info, "\r\n"+field+":")
	require.True(b, found)
	value, _, _ := strings.Cut(info, "\r\n")
	n, err := strconv.ParseInt(value, 10, 64)
	require.NoError(b, err)
	return n
}

func onCPU(b *testing.B, thread string) time.Duration {
	said, err := os.ReadFile(thread)
	require.NoError(b, err)
	ns, _, _ := strings.Cut(string(said), " ")
	n, err := strconv.ParseInt(ns, 10, 64)
	require.NoError(b, err)
	return time.Duration(n)
}

// ownCPU is how long this process was on a CPU.
func ownCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
