// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// ErrNoRedis says that there is no redis-server to compare with.
var ErrNoRedis = errors.New("peers: no redis-server found (Debian: apt-get install redis-server)")

// FindRedis returns the path of redis-server, or ErrNoRedis.
func FindRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoRedis, err)
	}
	return path, nil
}

// A Redis is a redis-server that this process has started: on a loopback port,
// without persistence, in a directory that is removed with it.
type Redis struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	ended chan error
}

// StartRedis starts one. It may take a while to answer.
func StartRedis(ctx context.Context) (*Redis, error) {
	path, err := FindRedis()
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "peers-redis-")
	if err != nil {
		return nil, err
	}
	s := &Redis{addr: net.JoinHostPort("127.0.0.1", port), dir: dir, ended: make(chan error, 1)}
	s.cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning")
	tie(s.cmd)
	started := make(chan error)
	go func() {
		// What tie ties the server to is this thread: it must not end before
		// the server does.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.ended <- s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server does not start: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

// Addr returns where it listens.
func (s *Redis) Addr() string { return s.addr }

// PID returns the number of its process.
func (s *Redis) PID() int { return s.cmd.Process.Pid }

// Stop ends the server, which has nothing to save, and nothing else.
func (s *Redis) Stop() error {
	err := s.cmd.Process.Kill()
	<-s.ended // it reports the kill
	return errors.Join(err, os.RemoveAll(s.dir))
}

// freePort returns a port that nobody listened on a moment ago. A server that
// loses the race for it does not answer, and the benchmark fails.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return strconv.Itoa(port), l.Close()
}
