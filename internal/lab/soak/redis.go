// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A server is a redis-server on a free port, which is killed and started again. It writes each
// charge to disk before it answers: so a kill must not lose one that was acknowledged.
type server struct {
	path, addr, dir string
	args            []string
	cmd             *exec.Cmd
	ended           chan struct{}
}

// findRedis returns the path of redis-server.
func findRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("there is no redis-server (Debian: apt-get install redis-server): %w", err)
	}
	return path, nil
}

// durable is what makes a redis-server keep what it answers.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func newServer(dir string, args []string) (*server, error) {
	path, err := findRedis()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &server{path: path, addr: l.Addr().String(), dir: dir, args: args}, l.Close()
}

// start starts it, and waits until it has read what it knew.
func (s *server) start(ctx context.Context) error {
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command(s.path, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--daemonize", "no", "--loglevel", "warning"}, s.args...)...)
	tie(s.cmd)
	started := make(chan error)
	s.ended = make(chan struct{})
	go func() {
		// What tie ties the server to is this thread: it must not end before the server does.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // it reports the kill
		}
		close(s.ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	for !s.answers() {
		select {
		case <-s.ended:
			return errors.New("redis-server does not stay")
		case <-ctx.Done():
			s.kill()
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// stands says that it was started, and has not ended.
func (s *server) stands() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// answers asks whether it is ready: while it loads it says so.
func (s *server) answers() bool {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	said, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && strings.TrimSpace(said) == "+PONG"
}

// kill kills it, by its own process, and waits until it is gone.
func (s *server) kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
}
