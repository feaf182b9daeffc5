// SPDX-License-Identifier: Apache-2.0

//go:build unix

package program

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"strings"
)

// A Server is a program on a port of its own, which can be killed, frozen and started again.
type Server struct {
	*Program        // that was started last
	Port     string // of 127.0.0.1

	command func(port string) *exec.Cmd
	ready   func(address string) bool
}

// Serve starts what command returns on a free port, until it is ready there. The port may be taken by then: it has further tries.
func Serve(command func(port string) *exec.Cmd, ready func(address string) bool) (s *Server, err error) {
	for range 5 {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		s = &Server{Port: port, command: command, ready: ready}
		if err = s.Start(); err == nil {
			return s, nil
		}
		s.Kill()
	}
	return nil, err
}

// Addr is where it listens.
func (s *Server) Addr() string { return "127.0.0.1:" + s.Port }

// Start starts it if it has ended, and waits until it is ready.
func (s *Server) Start() (err error) {
	if s.Program != nil && !s.Ended() {
		return nil
	}
	if s.Program, err = Start(s.command(s.Port)); err != nil {
		return err
	}
	return s.Ready(func() bool { return s.ready(s.Addr()) })
}

// Kill kills it as a crash does.
func (s *Server) Kill() {
	if s.Program != nil {
		s.Program.Kill()
	}
}

// FindRedis returns the path of redis-server.
func FindRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("there is no redis-server (Debian: apt-get install redis-server): %w", err)
	}
	return path, nil
}

// StartRedis starts a redis-server, which has some further arguments: it saves nothing if they do not say so. It is ready when it has
// read what it knew: while it loads it says so.
func StartRedis(dir string, args ...string) (*Server, error) {
	path, err := FindRedis()
	if err != nil {
		return nil, err
	}
	return Serve(func(port string) *exec.Cmd {
		return exec.Command(path, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--loglevel", "warning"}, args...)...)
	}, func(address string) bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer c.Close()
		if _, err := c.Write([]byte("PING\r\n")); err != nil {
			return false
		}
		said, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && strings.TrimSpace(said) == "+PONG"
	})
}
