// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
)

// A Redis is a redis-server on a free port, which is killed and started again. It writes each
// charge to disk before it answers: so a kill must not lose one that was acknowledged.
type Redis struct {
	path, dir string
	at        netip.AddrPort
	args      []string
	*program
}

// FindRedis returns the path of redis-server.
func FindRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("there is no redis-server (Debian: apt-get install redis-server): %w", err)
	}
	return path, nil
}

// NewRedis returns one that is not started yet, with some arguments in place of those that make it keep what it answers.
func NewRedis(dir string, args []string) (*Redis, error) {
	path, err := FindRedis()
	if err != nil {
		return nil, err
	}
	if args == nil {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	at, err := free()
	return &Redis{path: path, at: at, dir: dir, args: args}, err
}

// URL is where it listens.
func (s *Redis) URL() string { return "redis://" + s.at.String() + "/0" }

// Start starts it if it does not stand, and waits until it has read what it knew.
func (s *Redis) Start(ctx context.Context) (err error) {
	if s.program != nil {
		return nil
	}
	cmd := exec.Command(s.path, append([]string{"--port", fmt.Sprint(s.at.Port()), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--daemonize", "no", "--loglevel", "warning"}, s.args...)...)
	if s.program, err = launch(cmd); err != nil {
		return err
	}
	if err := s.ready(s.answers); err != nil || ctx.Err() != nil {
		return errors.Join(errors.New("redis-server does not stay"), err, ctx.Err())
	}
	return nil
}

// answers asks whether it is ready: while it loads it says so.
func (s *Redis) answers() bool {
	c, err := net.Dial("tcp", s.at.String())
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

// Kill kills it.
func (s *Redis) Kill() {
	if s.program != nil {
		_ = s.kill()
		s.program = nil
	}
}
