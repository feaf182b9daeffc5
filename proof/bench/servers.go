// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallystick/tallystick/proof/freeport"
)

// A redisServer is a redis-server that this process has started: on a loopback port, without
// persistence. What it uses and holds is that of one row alone.
type redisServer struct {
	addr  string
	admin *redis.Client
}

var errNoServer = errors.New("a server is missing")

// startRedis starts one. Where there is none (Debian: apt-get install redis-server) it is a failure.
func startRedis(o *opening) *redisServer {
	port := must(freeport.Find())
	o.start(exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", os.TempDir(), "--save", "", "--appendonly", "no", "--loglevel", "warning"))
	s := &redisServer{addr: net.JoinHostPort("127.0.0.1", port)}
	s.admin = redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 1})
	o.closing(s.admin.Close)
	waitFor("redis-server", func() error { return s.admin.Ping(context.Background()).Err() })
	return s
}

// start starts a program that is interrupted at the end.
func (o *opening) start(c *exec.Cmd) {
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
}

// waitFor waits until a server answers.
func waitFor(what string, ping func() error) {
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := ping(); err == nil {
			return
		} else if time.Now().After(until) {
			check(fmt.Errorf("%s does not answer: %w", what, err))
		}
	}
}

// info returns the sum of fields of what the server says of itself.
func (s *redisServer) info(section string, fields ...string) (sum float64) {
	for line := range strings.Lines(must(s.admin.Info(context.Background(), section).Result())) {
		for _, f := range fields {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), f+":"); ok {
				sum += must(strconv.ParseFloat(value, 64))
			}
		}
	}
	return sum
}

// processorTime returns nanoseconds.
func (s *redisServer) processorTime() float64 {
	return 1e9 * s.info("cpu", "used_cpu_sys", "used_cpu_user")
}

func (s *redisServer) bytes() float64 { return s.info("memory", "used_memory") }

// startPostgres starts a PostgreSQL. It refuses to be root, and so is somebody else, in a directory
// that is theirs.
func startPostgres(o *opening) *stdsql.DB {
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		programs = []string{path}
	}
	if len(programs) == 0 {
		check(fmt.Errorf("%w: no initdb found (Debian: apt-get install postgresql)", errNoServer))
	}
	dir := must(os.MkdirTemp("", "bench-postgres-"))
	o.closing(func() error { return os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		u := must(user.Lookup("postgres"))
		uid, gid := must(strconv.Atoi(u.Uid)), must(strconv.Atoi(u.Gid))
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		check(os.Chown(dir, uid, gid))
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(filepath.Dir(programs[len(programs)-1]), name), args...)
		c.Dir, c.SysProcAttr, c.Env = dir, as, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		return c
	}
	must(command("initdb", "-D", "data", "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").Output())
	port := must(freeport.Find())
	o.start(command("postgres", "-D", "data", "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir))
	db := must(stdsql.Open("pgx", "postgres://bench@127.0.0.1:"+port+"/postgres?sslmode=disable"))
	o.closing(db.Close)
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	waitFor("PostgreSQL", db.Ping)
	return db
}
