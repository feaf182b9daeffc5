// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// upload keeps nothing of a file in memory, and says how long it is.
func upload(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(0); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(r.MultipartForm.File["file"]) != 1 {
		http.Error(w, "no file", http.StatusBadRequest)
		return
	}
	if on, _ := os.ReadDir(os.TempDir()); len(on) == 0 {
		http.Error(w, "not on the disk", http.StatusBadRequest)
	}
}

// filesLeft returns the temporary files that are there after five uploads to h.
func filesLeft(t *testing.T, h http.Handler, status int, http2 bool) []os.DirEntry {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = http2
	server.StartTLS()
	for range 5 {
		body, contentType := formWithFile(100_000)
		r, err := http.NewRequest(http.MethodPost, server.URL, bytes.NewReader(body))
		require.NoError(t, err)
		r.Header = http.Header{"Content-Type": {contentType}, "Accept": {"text/html"}}
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		require.Equal(t, http2, resp.ProtoMajor == 2)
		require.Equal(t, status, resp.StatusCode, bodyOf(t, resp))
	}
	server.Close()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	return left
}

// TestUploadsLeaveNoFiles: a server removes the temporary files of the form of its own request,
// which is not the one that handlers have.
func TestUploadsLeaveNoFiles(t *testing.T) {
	handler := http.HandlerFunc(upload)
	limit := func(t *testing.T, cfg middleware.Config, next http.Handler) http.Handler {
		return newLimiter(t, cfg).Handler(next)
	}
	refusing := func() middleware.Config {
		cfg := contact(new(clock))
		cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, io.EOF }
		return cfg
	}
	for name, test := range map[string]struct {
		make   func(*testing.T) http.Handler
		status int // 0: the connection ends
	}{
		"bare": {func(*testing.T) http.Handler { return handler }, 200},
		"one":  {func(t *testing.T) http.Handler { return limit(t, open(), handler) }, 200},
		"one, a mux": {func(t *testing.T) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("POST /", handler)
			return limit(t, open(), mux)
		}, 200},
		"two": {func(t *testing.T) http.Handler { return limit(t, open(), limit(t, open(), handler)) }, 200},
		"with a price": {func(t *testing.T) http.Handler {
			return newLimiter(t, open()).HandlerCost(2, handler)
		}, 200},
		"by outcome":  {func(t *testing.T) http.Handler { return limit(t, login(new(clock)), handler) }, 200},
		"in a shadow": {func(t *testing.T) http.Handler { cfg := open(); cfg.Shadow = true; return limit(t, cfg, handler) }, 200},
		"skipped": {func(t *testing.T) http.Handler {
			cfg := open()
			cfg.Skip = func(*http.Request) bool { return true }
			return limit(t, cfg, handler)
		}, 200},
		"hooked": {func(t *testing.T) http.Handler { cfg := open(); record(&cfg); return limit(t, cfg, handler) }, 200},
		"a goroutine": {func(t *testing.T) http.Handler {
			return limit(t, open(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				done := make(chan struct{})
				go func() { defer close(done); upload(w, r) }()
				<-done
			}))
		}, 200},
		"a panic, recovered": {func(t *testing.T) http.Handler {
			return recoverer(limit(t, open(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { upload(w, r); panic("handler") })))
		}, 500},
		"by the program's refusal": {func(t *testing.T) http.Handler {
			cfg := refusing()
			cfg.RefusalHandler = handler
			return limit(t, cfg, handler)
		}, 403},
		"by the page of a refusal": {func(t *testing.T) http.Handler {
			cfg := refusing()
			cfg.PageHandler = handler
			return limit(t, cfg, handler)
		}, 403},
		"at an endpoint": {func(t *testing.T) http.Handler {
			cfg := challenging(new(clock), middleware.WhenExhausted)
			cfg.Identity, cfg.RefusalHandler = refusing().Identity, handler
			mux := http.NewServeMux()
			mux.Handle("/", http.StripPrefix("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path = cfg.Challenge.Path + "redeem"
				newLimiter(t, cfg).Endpoints().ServeHTTP(w, r)
			})))
			return mux
		}, 403},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", HTTP/1.1", true: ", HTTP/2"}[http2], func(t *testing.T) {
				// HTTP/2 of Go 1.27 leaves them behind a bare handler too.
				require.Len(t, filesLeft(t, test.make(t), test.status, http2), len(filesLeft(t, handler, 200, http2)), "files")
			})
		}
	}
}

// A handler that http.TimeoutHandler has left behind goes on with its own copy.
func TestUploadsBehindATimeout(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	end, ended := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		<-end
		_ = r.ParseMultipartForm(0)
	})
	for name, h := range map[string]http.Handler{
		"outside": http.TimeoutHandler(newLimiter(t, open()).Handler(slow), time.Nanosecond, ""),
		"inside":  newLimiter(t, open()).Handler(http.TimeoutHandler(slow, time.Nanosecond, "")),
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, h)
			body, contentType := formWithFile(1000)
			resp, err := server.Client().Post(server.URL, contentType, bytes.NewReader(body))
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, bodyOf(t, resp))
			end <- struct{}{}
			<-ended
		})
	}
}

// TestTrailersOfRequests: what a client sends after the body reaches the handler, declared or
// not, and with it what stands outside.
func TestTrailersOfRequests(t *testing.T) {
	for name, declared := range map[string]string{"declared": "Trailer: X-Sum\r\n", "not declared": ""} {
		for limiters := range 3 {
			t.Run(name, func(t *testing.T) {
				inside, outside, before := "", "", -1
				h := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					before = len(r.Trailer)
					_, _ = io.Copy(io.Discard, r.Body)
					inside = r.Trailer.Get("X-Sum")
				}))
				for range limiters {
					h = newLimiter(t, open()).Handler(h)
				}
				server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					outside = r.Trailer.Get("X-Sum")
				}))
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				require.NoError(t, err)
				defer func() { require.NoError(t, conn.Close()) }()
				_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"+declared+"\r\n1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n")
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, boolToInt(declared != ""), before)
				require.Equal(t, "7", inside)
				require.Equal(t, "7", outside)
			})
		}
	}
}

// TestProxiedTrailers: a proxy behind a limiter sends on what it does without one.
func TestProxiedTrailers(t *testing.T) {
	for _, trailer := range []http.Header{nil, {"X-Sum": {"7"}}} {
		var got [2]http.Header
		for limiters := range got {
			upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				got[limiters] = r.Trailer
			}))
			h := proxyTo(t, upstream.URL)
			if limiters > 0 {
				h = newLimiter(t, open()).Handler(h)
			}
			server := serve(t, h)
			r, err := http.NewRequest(http.MethodPost, server.URL, io.MultiReader(strings.NewReader("body")))
			require.NoError(t, err)
			r.Trailer = trailer
			resp, err := server.Client().Do(r)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, bodyOf(t, resp))
		}
		require.Equal(t, got[0], got[1])
		require.Len(t, got[1], len(trailer))
	}
}
