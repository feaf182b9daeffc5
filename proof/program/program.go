// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package program starts other programs on this machine, each on a port of its own, and ends them by their process.
package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// A Program is another process. A Ctrl-C is for the process that has started it.
type Program struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
	err  error         // of Wait; before that, no reader may look
}

// Start starts a program.
func Start(cmd *exec.Cmd) (*Program, error) {
	if cmd.SysProcAttr == nil { // else it may say as which user it runs
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Program{cmd: cmd, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Kill kills it, and waits until it is gone.
func (p *Program) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// End asks it to end, and says what is wrong with how it does.
func (p *Program) End(within time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
		return p.err
	case <-time.After(within):
		p.Kill()
		return errors.New("a process that was asked to end does not")
	}
}

// Ended reports whether it has ended.
func (p *Program) Ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Freeze stops it, and waits until it has: the signal alone is not that. Thaw has it go on.
func (p *Program) Freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("a process that was to freeze has not: %w", err)
	}
	return nil
}

// Thaw has it go on.
func (p *Program) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Ready waits until it is, as it says itself, for at most some minutes. It is not if it ends.
func (p *Program) Ready(is func() bool) error {
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if p.Ended() || time.Now().After(end) {
			return fmt.Errorf("%s does not stay: %w", p.cmd, errors.Join(p.err, errors.New(p.cmd.ProcessState.String())))
		}
	}
	return nil
}

// Accepts reports whether a server accepts connections at an address.
func Accepts(at string) bool {
	c, err := net.Dial("tcp", at)
	return err == nil && c.Close() == nil
}

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

// StartRedis starts a redis-server, which saves nothing. It is ready when it answers.
func StartRedis(dir string) (*Server, error) {
	path, err := FindRedis()
	if err != nil {
		return nil, err
	}
	return Serve(func(port string) *exec.Cmd {
		return exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--loglevel", "warning")
	}, func(address string) bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer c.Close()
		_, _ = io.WriteString(c, "PING\r\n") // an error is one of the read too
		said, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && said == "+PONG\r\n"
	})
}
