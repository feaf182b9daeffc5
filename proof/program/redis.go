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

// A Redis is a redis-server, which can be killed and started again.
type Redis struct {
	*Program // nil while it is down
	Addr     string
	args     []string
}

// FindRedis returns the path of redis-server.
func FindRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("there is no redis-server (Debian: apt-get install redis-server): %w", err)
	}
	return path, nil
}

// StartRedis starts one, which has some further arguments: it saves nothing if they do not say so.
func StartRedis(dir string, args ...string) (r *Redis, err error) {
	for range 5 { // the port may be taken by now
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		r = &Redis{Addr: "127.0.0.1:" + port, args: append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--loglevel", "warning"}, args...)}
		if err = r.Start(); err == nil {
			return r, nil
		}
	}
	return nil, err
}

// Start starts it if it is down, and waits until it has read what it knew.
func (r *Redis) Start() error {
	path, err := FindRedis()
	if err != nil || r.Program != nil {
		return err
	}
	if r.Program, err = Start(exec.Command(path, r.args...)); err != nil {
		return err
	}
	if err = r.Ready(r.answers); err != nil {
		r.Program = nil
	}
	return err
}

// URL is where it listens.
func (r *Redis) URL() string { return "redis://" + r.Addr + "/0" }

// answers asks whether it is ready: while it loads it says so.
func (r *Redis) answers() bool {
	c, err := net.Dial("tcp", r.Addr)
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
func (r *Redis) Kill() {
	if r.Program != nil {
		r.Program.Kill()
		r.Program = nil
	}
}
