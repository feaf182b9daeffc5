// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/storeless"
)

// A take counts a call for a key. Many callers call it at once. A call that does not pass is an error, because the quota is enough
// for all.
type take func(key string) error

// most is the quota of each key in an hour.
const most = storeless.MaxQuota

// engines are the rows of the table of counters. Each row over Redis has its own server.
var engines = []struct {
	name string
	open func(o *opening) take
}{
	{"memory", func(*opening) take { return counting(memory.New(0, nil), false) }},
	{"file", func(o *opening) take {
		dir := must(os.MkdirTemp("", "bench-counters-"))
		o.closing(func() error { return os.RemoveAll(dir) })
		f := must(file.Open(filepath.Join(dir, "counts"), file.Config{}))
		o.closing(f.Close)
		return counting(f, false)
	}},
	{"remote", func(o *opening) take { // a counter in memory, over HTTP on loopback; the server runs in this process
		cfg := remote.Config{Secrets: [][]byte{secret()}}
		s := httptest.NewServer(must(remote.Serve(memory.New(0, nil), cfg)))
		o.closing(func() error { s.Close(); return nil })
		of := must(remote.Open([]string{s.URL + "/"}, cfg))
		o.closing(of.Close)
		return counting(of, false)
	}},
	{"redis", func(o *opening) take { return counting(o.redisCounter(), false) }},
	{"redis/ids", func(o *opening) take { return counting(o.redisCounter(), true) }},
	{redisRate, func(o *opening) take { // a key expires when it has nothing to remember: at this rate it lasts for an hour
		limiter, limit := redis_rate.NewLimiter(o.redisClient()), redis_rate.Limit{Rate: 1, Period: time.Hour, Burst: most}
		return func(key string) error {
			r, err := limiter.Allow(context.Background(), key, limit)
			return passed(err == nil && r.Allowed == 1, err)
		}
	}},
}

// counting asks one of our counters. With IDs, as the middleware gives them to calls, the counter also keeps the answer for a
// call that is repeated.
func counting(of exact.Counter, ids bool) take {
	p := must(exact.Compile("bench", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: most, Window: time.Hour}}))
	var last atomic.Uint64
	return func(key string) error {
		call := exact.Call{Key: key, Cost: 1, Policy: p}
		if ids {
			call.ID = "0123456789abcdef" + strconv.FormatUint(last.Add(1), 36)
		}
		v, err := of.Take(context.Background(), call)
		if errors.Is(err, exact.ErrNotCounted) { // a starved process has made no connection in a second
			v, err = of.Take(context.Background(), call)
		}
		return passed(v.Admitted, err)
	}
}

func passed(passed bool, err error) error {
	if err == nil && !passed {
		err = errors.New("a call that must pass did not")
	}
	return err
}

// loads are numbers of callers that ask a counter at once, and of their keys.
var loads = []struct{ callers, keys int }{{1, 1}, {16, 1}, {128, 1}, {1, 10_000}, {16, 10_000}, {128, 10_000}}

// underLoads names the rows: each counter under each load.
func underLoads() (rows []string) {
	for _, e := range engines {
		for _, l := range loads {
			rows = append(rows, fmt.Sprintf("%s %d×%d", e.name, l.callers, l.keys))
		}
	}
	return rows
}

// measureCounters measures all exact counters in turn. All stay open.
func measureCounters(ctx context.Context, s *settings, o *opening, all samples, long time.Duration) {
	var rows []row
	names := underLoads()
	for i, e := range engines {
		if !s.wants(e.name) {
			continue
		}
		used, take := o.redisFor(e.name), e.open(o)
		for k, l := range loads {
			ask := func(caller, call int) error { // the next caller has another key
				return take("customer-" + strconv.Itoa((caller+call*l.callers)*7919%l.keys))
			}
			l := load{callers: l.callers, long: long / time.Duration(s.groups*leastRounds*len(names)), ask: ask, used: used}
			rows = append(rows, row{names[i*len(loads)+k], l.slice})
		}
	}
	s.play(ctx, "counters", all, rows, long)
}
