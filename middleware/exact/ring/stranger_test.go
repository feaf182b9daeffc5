// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// Who has no secret holds no connection, by what never comes: each is a goroutine and a file of the program.
func TestStrangersHoldNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	self := l.Addr().String()
	r, err := ring.Open(ring.Config{Self: self, Members: []string{self}, Secrets: secrets, Listener: l, Logger: silent})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for name, text := range map[string]string{
		"a body, by PUT":  "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"a body, by POST": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"another request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", self)
			require.NoError(t, err)
			defer c.Close()
			_, err = io.WriteString(c, text)
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(8*time.Second))) // a body is waited for until ReadTimeout, ten
			answer, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Regexp(t, "^HTTP/1.1 40[15] ", string(answer))
		})
	}
}
