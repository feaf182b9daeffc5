// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/ring"
	"github.com/tallystick/tallystick/proof/kit"
)

// listening opens a ring of one member that others can ask, in a bubble.
func listening(t *testing.T) (r *ring.Ring, dial func() net.Conn) {
	p := kit.NewPipes()
	r, err := ring.Open(ring.Config{Self: "self:1", Members: []string{"self:1"}, Secrets: secrets, Listener: p, Logger: silent})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		time.Sleep(time.Second) // for so long net/http looks after connections that it has closed
	})
	return r, func() net.Conn {
		c := p.Dial()
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// Who has no secret holds no connection, by what never comes: each is a goroutine and a file of the program.
func TestStrangersHoldNoConnection(t *testing.T) {
	for name, text := range map[string]string{
		"a body, by PUT":  "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"a body, by POST": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"another request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			_, dial := listening(t)
			c, began := dial(), time.Now()
			_, err := io.WriteString(c, text)
			require.NoError(t, err)
			answer, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Regexp(t, "^HTTP/1.1 40[15] ", string(answer))
			require.LessOrEqual(t, time.Since(began), time.Second, "a body is waited for until ReadTimeout, ten")
		})
	}
}

// Strangers who say nothing, each for five seconds, take no more than some of the program's files.
func TestStrangersHoldNotAllConnections(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		r, dial := listening(t)
		answers := func(c net.Conn) bool {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			answer, _ := io.ReadAll(c)
			return strings.HasPrefix(string(answer), "HTTP/1.1 405 ")
		}
		r.Open(ring.MostOpen - 1)
		last := dial()
		require.False(t, answers(dial()), "one too many")
		require.True(t, answers(last), "who has one keeps it")
		synctest.Wait()
		require.True(t, answers(dial()), "what has ended makes room")
	})
}
