// SPDX-License-Identifier: Apache-2.0

//go:build unix

package exactkit_test

import (
	"net"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A server ends if its port is taken, and is started on another one.
func TestStartServerTriesAnotherPort(t *testing.T) {
	var ports []string
	s := exactkit.StartServer(t, func(port string) *exec.Cmd {
		if ports = append(ports, port); len(ports) < 3 {
			return exec.Command("false")
		}
		l := kit.Must(net.Listen("tcp", "127.0.0.1:"+port))(t)
		t.Cleanup(func() { _ = l.Close() })
		return exec.Command("sleep", "60")
	})
	require.Len(t, ports, 3)
	require.Equal(t, ports[2], s.Port)
	require.NotEqual(t, ports[0], ports[1])
}
