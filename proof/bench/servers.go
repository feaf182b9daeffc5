// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallystick/tallystick/proof/program"
)

var errNoServer = errors.New("a server is missing")

// startRedis starts one. Where there is none (Debian: apt-get install redis-server) it is a failure.
func (o *opening) startRedis() {
	port := must(program.FreePort())
	c := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", os.TempDir(), "--save", "", "--appendonly", "no", "--loglevel", "warning")
	err := c.Start()
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.Join(errNoServer, err)
	}
	check(err)
	o.closing(func() error {
		_ = c.Process.Signal(syscall.SIGINT) // at once, and in order
		_ = c.Wait()                         // it reports the signal
		return nil
	})
	o.redis = net.JoinHostPort("127.0.0.1", port)
	o.server = &redisServer{redis.NewClient(&redis.Options{Addr: o.redis, PoolSize: 1})}
	o.closing(o.server.admin.Close)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := o.server.admin.Ping(context.Background()).Err(); err == nil {
			return
		} else if time.Now().After(until) {
			check(fmt.Errorf("redis-server does not answer: %w", err))
		}
	}
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
