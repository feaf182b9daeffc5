// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// listening opens a ring of one member that others can ask.
func listening(t *testing.T) (*ring.Ring, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	self := l.Addr().String()
	r, err := ring.Open(ring.Config{Self: self, Members: []string{self}, Secrets: secrets, Listener: l, Logger: silent})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r, self
}

// Who has no secret holds no connection, by what never comes: each is a goroutine and a file of the program.
func TestStrangersHoldNoConnection(t *testing.T) {
	_, self := listening(t)
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

// Strangers who say nothing, each for five seconds, take no more than some of the program's files.
func TestStrangersHoldNotAllConnections(t *testing.T) {
	r, self := listening(t)
	answers := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		answer, _ := io.ReadAll(c)
		return strings.HasPrefix(string(answer), "HTTP/1.1 405 ")
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", self)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	r.Open(ring.MostOpen - 1)
	last := dial()
	require.False(t, answers(dial()), "one too many")
	require.True(t, answers(last), "who has one keeps it")
	for end := time.Now().Add(time.Minute); !answers(dial()); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "what has ended makes room")
	}
}
