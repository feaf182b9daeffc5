// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults

import (
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Server is a process of one test that others call, which can be killed, frozen and started again.
type Server struct {
	Port string // its own

	t       testing.TB
	command func(port string) *exec.Cmd
	cmd     *exec.Cmd
}

// StartServer starts what command returns on a free port, until it answers there, and ends it with the
// test by its process id.
func StartServer(t testing.TB, command func(port string) *exec.Cmd) *Server {
	t.Helper()
	s := &Server{FreePort(t), t, command, nil}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// FreePort returns a port of this machine that nobody has.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// Start starts it again.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = s.command(s.Port)
	require.NoError(s.t, s.cmd.Start())
	Answers(s.t, s.Addr())
}

// Answers waits until somebody listens.
func Answers(t testing.TB, addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, Patient, 5*time.Millisecond, "it answers")
}

// Addr is where it listens.
func (s *Server) Addr() string { return "127.0.0.1:" + s.Port }

// Kill ends it as a crash does.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
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
