// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// A Server is a process of one test that others call, which can be killed, frozen and started again.
type Server struct {
	Port string // its own

	t       testing.TB
	command func(port string) *exec.Cmd
	cmd     *exec.Cmd
	ended   chan struct{}
}

// StartServer starts what command returns on a free port, until it answers there, and ends it with the
// test by its process id.
func StartServer(t testing.TB, command func(port string) *exec.Cmd) *Server {
	t.Helper()
	s := &Server{t: t, command: command}
	t.Cleanup(s.Kill)
	for range 5 { // the port may be somebody else's by now
		s.Port = kit.FreePort(t)
		if s.starts() {
			return s
		}
	}
	t.Fatal("the server does not stay")
	return nil
}

// Start starts it again.
func (s *Server) Start() {
	s.t.Helper()
	require.True(s.t, s.starts(), "the server does not stay")
}

// starts starts it, and says whether it answers. It does not where it has ended.
func (s *Server) starts() bool {
	s.t.Helper()
	s.cmd, s.ended = s.command(s.Port), make(chan struct{})
	require.NoError(s.t, s.cmd.Start())
	cmd, ended := s.cmd, s.ended
	go func() { defer close(ended); _ = cmd.Wait() }()
	for end := time.Now().Add(Patient); time.Now().Before(end); {
		select {
		case <-ended:
			s.t.Logf("%s ended: %s", cmd, cmd.ProcessState)
			return false
		case <-time.After(5 * time.Millisecond):
			if c, err := net.Dial("tcp", s.Addr()); err == nil {
				_ = c.Close()
				return true
			}
		}
	}
	s.t.Fatal("the server does not answer")
	return false
}

// Addr is where it listens.
func (s *Server) Addr() string { return "127.0.0.1:" + s.Port }

// Kill ends it as a crash does.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// Freeze stops it, and waits until it has: the signal alone is not that.
func (s *Server) Freeze() {
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(s.t, err)
	require.True(s.t, status.Stopped())
}

// Thaw has it go on.
func (s *Server) Thaw() { require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGCONT)) }
