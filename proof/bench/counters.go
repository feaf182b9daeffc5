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
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/storeless"
)

// A take counts one for a key, and reports whether it passes. Many ask at once.
type take func(key string) (bool, error)

// engines are the rows of the table of counters. Those over Redis have a server of their own.
var engines = []struct {
	name string
	open func(o *opening) take
}{
	{"memory", func(*opening) take { return counting(memory.New(0, nil), nil) }},
	{"file", openFile},
	{"remote", openRemote},
	{"redis", func(o *opening) take { return counting(openRedis(o), nil) }},
	{"redis/ids", openRedisIDs},
	{redisRate, openRedisRate},
}

// most is everybody's quota, in an hour.
const most = storeless.MaxQuota

// callers are how many ask a counter at once, and keyCounts on how many keys.
var (
	callers   = []int{1, 16, 128}
	keyCounts = []int{1, 10_000}
)

// loadName is the end of a row's name.
func loadName(keys, callers int) string { return fmt.Sprintf(" %d×%d", callers, keys) }

// underLoads names the rows of all counters, each under all loads.
func underLoads() (rows []string) {
	for _, e := range engines {
		for _, keys := range keyCounts {
			for _, n := range callers {
				rows = append(rows, e.name+loadName(keys, n))
			}
		}
	}
	return rows
}

// measureCounters measures all exact counters beside each other. All are open all the time.
func measureCounters(ctx context.Context, s *settings, o *opening, long time.Duration) samples {
	var rows []row
	for _, e := range engines {
		if !s.wants(e.name) {
			continue
		}
		o.server = nil
		take, used := e.open(o), o.server.used
		for _, keys := range keyCounts {
			for _, n := range callers {
				ask := func(caller, call int) error {
					return passed(take("customer-" + strconv.Itoa((caller+call*n)*7919%keys))) // for another key than the next caller
				}
				l := load{callers: n, long: long / time.Duration(s.groups*leastRounds*len(engines)*len(keyCounts)*len(callers)), ask: ask, used: used}
				rows = append(rows, row{e.name + loadName(keys, n), l.slice})
			}
		}
	}
	return s.play(ctx, "counters", rows, long)
}

func passed(passed bool, err error) error {
	if err == nil && !passed {
		err = errors.New("a call that must pass did not")
	}
	return err
}

// counting asks a counter of ours, with an ID for each call if there are any.
func counting(of exact.Counter, id func() string) take {
	p := must(exact.Compile("bench", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: most, Window: time.Hour}}))
	return func(key string) (bool, error) {
		call := exact.Call{Key: key, Cost: 1, Policy: p}
		if id != nil {
			call.ID = id()
		}
		v, err := of.Take(context.Background(), call)
		return v.Admitted, err
	}
}

func openFile(o *opening) take {
	dir := must(os.MkdirTemp("", "bench-counters-"))
	o.closing(func() error { return os.RemoveAll(dir) })
	f := must(file.Open(filepath.Join(dir, "counts"), file.Config{}))
	o.closing(f.Close)
	return counting(f, nil)
}

// openRemote is a counter in memory, by HTTP over loopback. Its server runs in this process.
func openRemote(o *opening) take {
	cfg := remote.Config{Secrets: [][]byte{secret()}}
	s := httptest.NewServer(must(remote.Serve(memory.New(0, nil), cfg)))
	o.closing(func() error { s.Close(); return nil })
	of := must(remote.Open([]string{s.URL + "/"}, cfg))
	o.closing(of.Close)
	return counting(of, nil)
}

func openRedis(o *opening) engine.ArchiveCloser {
	o.startRedis()
	return o.redisCounter()
}

// openRedisIDs gives each call an ID of its own, as the middleware does: the answer to a call that
// is asked once more is kept.
func openRedisIDs(o *opening) take {
	last := new(atomic.Uint64)
	return counting(openRedis(o), func() string { return "0123456789abcdef" + strconv.FormatUint(last.Add(1), 36) })
}

// openRedisRate has a rate so low that a key, which redis_rate lets expire when it has nothing to remember, lasts for an hour.
func openRedisRate(o *opening) take {
	o.startRedis()
	limiter, limit := redis_rate.NewLimiter(o.redisClient()), redis_rate.Limit{Rate: 1, Period: time.Hour, Burst: most}
	return func(key string) (bool, error) {
		r, err := limiter.Allow(context.Background(), key, limit)
		return err == nil && r.Allowed == 1, err
	}
}
