// SPDX-License-Identifier: Apache-2.0

//go:build unix

package exactkit

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/program"
)

// A Server is a process of one test that others call, which can be killed, frozen and started again.
type Server struct {
	Port string // its own

	t       testing.TB
	command func(port string) *exec.Cmd
	program *program.Program
}

// StartServer starts what command returns on a free port, until it answers there, and ends it with the
// test by its process id.
func StartServer(t testing.TB, command func(port string) *exec.Cmd) *Server {
	t.Helper()
	s := &Server{t: t, command: command}
	t.Cleanup(s.Kill)
	for range 5 { // the port may be taken by now
		s.Port = kit.FreePort(t)
		err := s.start()
		if err == nil {
			return s
		}
		t.Log(err)
	}
	t.Fatal("the server does not stay")
	return nil
}

// Start starts it again.
func (s *Server) Start() {
	s.t.Helper()
	require.NoError(s.t, s.start())
}

// start starts it, and waits until it answers.
func (s *Server) start() (err error) {
	if s.program, err = program.Start(s.command(s.Port)); err != nil {
		return err
	}
	return s.program.Ready(func() bool { return program.Accepts(s.Addr()) })
}

// Addr is where it listens.
func (s *Server) Addr() string { return "127.0.0.1:" + s.Port }

// Kill ends it as a crash does.
func (s *Server) Kill() {
	if s.program != nil {
		s.program.Kill()
	}
}

// Freeze stops it, and waits until it has.
func (s *Server) Freeze() { require.NoError(s.t, s.program.Freeze()) }

// Thaw has it go on.
func (s *Server) Thaw() { require.NoError(s.t, s.program.Thaw()) }
