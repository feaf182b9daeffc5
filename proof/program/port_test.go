// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"net"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/program"
)

// The finder of a port can listen on it, and no request for any free port gets it.
func TestFind(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		port := kit.Must(program.FreePort())(t)
		number := kit.Must(strconv.Atoi(port))(t)
		require.Less(t, number, 32_768)
		require.False(t, seen[port], "it is not found again")
		seen[port] = true
		l := kit.Must(net.Listen("tcp4", "127.0.0.1:"+port))(t)
		defer l.Close()
	}
}

// A port is its finder's before there is a listener, and while a server is started again.
func TestAPortIsFoundOnce(t *testing.T) {
	port, err := program.FreePort()
	require.NoError(t, err)
	runtime.GC()
	_, err = net.ListenPacket("udp4", "127.0.0.1:"+port)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}
