// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallystick/tallystick/proof/program"
)

var errNoServer = errors.New("a server is missing")

// startRedis starts one. Where there is none (Debian: apt-get install redis-server) it is a failure.
func (o *opening) startRedis() {
	_, err := program.FindRedis()
	if err != nil {
		err = errors.Join(errNoServer, err)
	}
	check(err)
	server := must(program.StartRedis(os.TempDir(), "--appendonly", "no"))
	o.closing(func() error { return server.End(time.Minute) })
	o.redis = server.Addr()
	o.server = &redisServer{redis.NewClient(&redis.Options{Addr: o.redis, PoolSize: 1})}
	o.closing(o.server.admin.Close)
}

// used implements service.used: nanoseconds of the server, if there is one.
func (s *redisServer) used() map[string]float64 {
	used := make(map[string]float64)
	if s == nil {
		return used
	}
	for line := range strings.Lines(must(s.admin.Info(context.Background(), "cpu").Result())) {
		for _, f := range []string{"used_cpu_sys", "used_cpu_user"} {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), f+":"); ok {
				used["server"] += 1e9 * must(strconv.ParseFloat(value, 64))
			}
		}
	}
	return used
}
