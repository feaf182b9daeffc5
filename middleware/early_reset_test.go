// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// ofResets is set in a process that is to do TestResetsOfEarlyResponses itself: what that looks
// for, "fatal error: concurrent map iteration and map write", ends a process.
const ofResets = "TALLYSTICK_TEST_RESETS"

// TestResetsOfEarlyResponses: net/http's HTTP/2 server encodes a 1xx from the live header map, on a goroutine of its
// own, and waits for it no longer once the client has reset the stream (golang/go#67940). Nobody must find the map
// being written, whoever writes to it then. More threads than there are cores have the system stop one in the middle.
func TestResetsOfEarlyResponses(t *testing.T) {
	if os.Getenv(ofResets) != "" {
		resetEarlyResponses(t)
		return
	}
	for _, procs := range []string{"16", "64"} {
		if procs == "64" && !kit.Whole() {
			continue
		}
		t.Run("GOMAXPROCS="+procs, func(t *testing.T) {
			args := []string{"-test.run=^TestResetsOfEarlyResponses$", "-test.v", "-test.short=" + strconv.FormatBool(!kit.Whole())}
			cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // this very program
			cmd.Env = append(os.Environ(), ofResets+"=1", "GOMAXPROCS="+procs)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%.4000s", out)
			t.Logf("%s", out)
		})
	}
}

func resetEarlyResponses(t *testing.T) {
	two := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.Header().Set("X-Custom", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}
	// The more there is to encode the longer it takes: of 100 fields, 100 to 4,000 streams were
	// enough for a limiter that writes to the map; of two, as many as 400,000.
	many := func(w http.ResponseWriter, r *http.Request) {
		for i := range 100 {
			w.Header().Set("X-Custom-"+strconv.Itoa(i), "1")
		}
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Custom-1", "2") // Go's own fault, where no limiter stands
		two(w, r)
	}
	limit := func(policy string, h http.Handler) http.Handler {
		cfg := open()
		cfg.Policy = policy
		return newLimiter(t, cfg).Handler(h)
	}
	most, longest := int64(1500), 5*time.Second
	switch {
	case kit.Long():
		most, longest = 100_000, time.Minute
	case !kit.Whole():
		most = 300
	}
	upstream := serve(t, http.HandlerFunc(many)).URL
	proxy := func() http.Handler {
		p := proxyTo(t, upstream).(*httputil.ReverseProxy)
		p.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // each request is canceled
		return p
	}
	for _, test := range []struct {
		name            string
		handler         http.Handler
		stacked, secure bool
	}{
		{"two fields", http.HandlerFunc(two), false, false},
		{"many fields", http.HandlerFunc(many), false, false},
		{"many fields, stacked", http.HandlerFunc(many), true, false},
		{"many fields, TLS", http.HandlerFunc(many), false, true},
		{"a proxy", proxy(), false, false},
		{"a proxy, TLS", proxy(), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var moments sync.Map // by the addresses of connections: a 1xx is about to be written
			h := limit("page", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				at, _ := moments.Load(r.RemoteAddr)
				test.handler.ServeHTTP(&announcing{w, at.(chan struct{})}, r)
			}))
			if test.stacked {
				h = limit("site", h)
			}
			server := httptest.NewUnstartedServer(h)
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Config.Protocols.SetHTTP2(true)
			if server.EnableHTTP2 = test.secure; test.secure {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			var streams atomic.Int64
			end := time.Now().Add(longest)
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					conn := dialHTTP2(t, server)
					at := make(chan struct{}, 1)
					moments.Store(conn.LocalAddr().String(), at)
					for id := uint32(1); streams.Add(1) <= most && time.Now().Before(end); id += 2 {
						conn.resetAt(t, at, id)
					}
					if err := conn.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			t.Logf("%d streams", min(streams.Load(), most))
		})
	}
}

// An announcing writer says when a 1xx is about to be written.
type announcing struct {
	http.ResponseWriter
	at chan<- struct{}
}

func (a *announcing) WriteHeader(status int) {
	if status < 200 {
		select {
		case a.at <- struct{}{}:
		default:
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// An http2Conn is a connection of a client that writes its own frames.
type http2Conn struct{ net.Conn }

func dialHTTP2(t *testing.T, server *httptest.Server) http2Conn {
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	if server.TLS != nil {
		cfg := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		cfg.NextProtos, cfg.ServerName = []string{"h2"}, "example.com"
		conn = tls.Client(conn, cfg)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	c := http2Conn{conn}
	// SETTINGS, and that the server's are fine, in one piece: it waits for two seconds.
	_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00")
	require.NoError(t, err)
	return c
}

func (c http2Conn) frame(t *testing.T, kind, flags byte, stream uint32, payload []byte) {
	b := binary.BigEndian.AppendUint32([]byte{0, 0, byte(len(payload)), kind, flags}, stream)
	if _, err := c.Write(append(b, payload...)); err != nil {
		t.Errorf("stream %d: %v", stream, err)
	}
}

// resetAt sends a request, GET and POST in turn, and resets its stream about when a 1xx is written.
func (c http2Conn) resetAt(t *testing.T, at <-chan struct{}, id uint32) {
	select {
	case <-at: // late, of the stream before
	default:
	}
	method := 0x82 + byte(id/2%2)
	c.frame(t, 1, 5, id, []byte{method, 0x86, 0x84, 0x41, 1, 'x'}) // HEADERS: http, /, x
	select {
	case <-at:
	case <-time.After(time.Second): // a proxy whose upstream could not be reached
	}
	for range rand.IntN(2000) {
		jitter.Add(1)
	}
	c.frame(t, 3, 0, id, []byte{0, 0, 0, 8}) // RST_STREAM, CANCEL
}

var jitter atomic.Int64
