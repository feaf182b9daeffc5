// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// Clients that have hung up stand in line until it is their turn: net/http notices only when something reads their
// bodies. Two addresses fill all places so; who comes from a third one is served all the same.
func TestTheDeadGiveWay(t *testing.T) {
	const queue, all = 20, 40
	m := newInLine(t, Concurrency{Max: 1, Queue: queue, MaxHold: time.Hour})
	m.served.table.Bound(slots.Bounds{Hold: time.Hour, Queue: queue, QueueAll: all})
	var refused atomic.Int64
	serving, release := make(chan bool, 2), make(chan bool)
	limited := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		serving <- true
		<-release
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r)
		if r.ContentLength > 0 && len(w.Header()["Retry-After"]) > 0 {
			refused.Add(1)
		}
	}))
	defer server.Close()
	until := func(what string, is func() bool) {
		require.Eventually(t, is, 2*time.Minute, time.Millisecond, what)
	}
	waiting := func() int {
		_, n := m.served.table.Live()
		return n
	}
	dialer := func(addr string) *net.Dialer { return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}} }
	unsent := func(addr string) net.Conn {
		conn, err := dialer(addr).Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1\r\n\r\n")
		require.NoError(t, err)
		return conn
	}
	want := 0
	for _, addr := range []string{"127.0.0.2", "127.0.0.3"} {
		defer unsent(addr).Close() // it has the slot
		until("it has", func() bool { tallies, _ := m.served.table.Live(); return tallies == 1+want/queue })
		for range queue {
			conn := unsent(addr)
			want++
			until("it stands in line", func() bool { return waiting() == want })
			require.NoError(t, conn.Close())
		}
	}
	transport := &http.Transport{DialContext: dialer("127.0.0.4").DialContext}
	defer transport.CloseIdleConnections()
	statuses := make(chan string, 2)
	ask := func() {
		resp, err := (&http.Client{Transport: transport}).Post(server.URL, "text/plain", strings.NewReader(""))
		if err != nil {
			statuses <- err.Error()
			return
		}
		_ = resp.Body.Close()
		statuses <- resp.Status
	}
	go ask()
	<-serving
	go ask()
	until("one of the dead gives way", func() bool { return refused.Load() == 1 || len(statuses) > 0 })
	require.Equal(t, all, waiting())
	close(release)
	require.Equal(t, []string{"200 OK", "200 OK"}, []string{<-statuses, <-statuses})
}

// From where somebody comes is what costs something to have more of: an address, not a /64, nor a tally.
func TestNetworksInLine(t *testing.T) {
	e := newInLine(t, Concurrency{Max: 1, Queue: 1}).engine.Load()
	of := func(id Identity) slots.Key {
		who := e.newSubject(t.Context(), time.Now(), id)
		return e.gate.networkOf(&who, e.gate.keyOf(who.bytes))
	}
	address := func(s string) slots.Key { return of(Address(netip.MustParseAddr(s))) }
	require.Equal(t, address("2001:db8:1::1"), address("2001:db8:1:ffff::1"))
	require.NotEqual(t, address("2001:db8:1::1"), address("2001:db8:2::1"))
	require.NotEqual(t, address("192.0.2.1"), address("192.0.2.2"))
	require.NotEqual(t, of(APIKey("a")), of(APIKey("b")))
}

func newInLine(t *testing.T, c Concurrency) *Middleware {
	m, err := New(Config{
		Policy: "contact", Limits: []Limit{{Quota: 1000, Window: time.Minute}}, Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)}, Concurrency: &c,
	})
	require.NoError(t, err)
	return m
}
