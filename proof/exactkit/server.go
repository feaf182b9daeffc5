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

// A Server is a process of one test that others call.
type Server struct {
	*program.Server
	t testing.TB
}

// StartServer starts what command returns on a free port, until it answers there, and ends it with the
// test by its process id.
func StartServer(t testing.TB, command func(port string) *exec.Cmd) *Server {
	t.Helper()
	s := kit.Must(program.Serve(command, program.Accepts))(t)
	t.Cleanup(s.Kill)
	return &Server{s, t}
}

// Start starts it again.
func (s *Server) Start() { require.NoError(s.t, s.Server.Start()) }

// Freeze stops it, and waits until it has.
func (s *Server) Freeze() { require.NoError(s.t, s.Server.Freeze()) }

// Thaw has it go on.
func (s *Server) Thaw() { require.NoError(s.t, s.Server.Thaw()) }
