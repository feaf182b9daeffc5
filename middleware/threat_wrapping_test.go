// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// through runs a handler behind the limiter with a writer of our own.
func through(t *testing.T, w http.ResponseWriter, httpMethod string, handler http.HandlerFunc) {
	t.Helper()
	r := httptest.NewRequest(httpMethod, "/", nil)
	newLimiter(t, contact(new(clock))).Handler(handler).ServeHTTP(w, r)
}

func TestThreatsOfWrapping(t *testing.T) {
	for i := range 32 {
		bits, m := i%16, []string{http.MethodGet, http.MethodPost}[i/16]
		t.Run(fmt.Sprintf("T36 keeps exactly the optional interfaces %04b, %s", bits, m), func(t *testing.T) {
			for use := range 5 { // one interface each; the last uses none
				raw := &writer{header: http.Header{}}
				through(t, combine(raw, bits), m, func(w http.ResponseWriter, _ *http.Request) {
					clear(w.Header())
					flusher, flushes := w.(http.Flusher)
					hijacker, hijacks := w.(http.Hijacker)
					reader, reads := w.(io.ReaderFrom)
					pusher, pushes := w.(http.Pusher)
					require.Equal(t, bits&1 != 0, flushes)
					require.Equal(t, bits&2 != 0, hijacks)
					require.Equal(t, bits&4 != 0, reads)
					require.Equal(t, bits&8 != 0, pushes)
					switch {
					case use == 0 && flushes:
						flusher.Flush()
					case use == 1 && hijacks:
						_, _, err := hijacker.Hijack()
						require.NoError(t, err)
						return
					case use == 2 && reads:
						_, err := reader.ReadFrom(strings.NewReader("ok"))
						require.NoError(t, err)
					case use == 3 && pushes:
						require.NoError(t, pusher.Push("/style.css", nil))
					}
					_, err := io.WriteString(w, "ok")
					require.NoError(t, err)
				})
				if use == 1 && bits&2 != 0 {
					require.Equal(t, 1, raw.hijacks)
					require.Nil(t, raw.sent)
					require.NotEmpty(t, raw.header.Get(middleware.TokenHeader), "for who writes the response from the map")
					continue
				}
				require.Equal(t, boolToInt(use == 0 && bits&1 != 0), raw.flushes)
				require.Equal(t, boolToInt(use == 2 && bits&4 != 0), raw.reads)
				require.Equal(t, boolToInt(use == 3 && bits&8 != 0), raw.pushes)
				require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader), "whatever was used first")
				require.Equal(t, "no-store", raw.sent.Get("Cache-Control"))
			}
		})
	}
	t.Run("T36 the header is settled once", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			clear(w.Header())
			w.Header().Set("Cache-Control", "upstream's")
			_, _ = io.WriteString(w, "ok")
		})
		require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader))
		require.Equal(t, http.Header{"Cache-Control": {"upstream's"}}, raw.header, "what comes later are trailers")
	})
	t.Run("T36 switching protocols is a final response", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
		})
		require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader))
	})
	t.Run("T36 rc.Flush through wrappers", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, unwrapping{combine(raw, 1)}, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, http.NewResponseController(unwrapping{w}).Flush())
		})
		require.Equal(t, 1, raw.flushes)
		require.NotEmpty(t, raw.sent.Get(middleware.TokenHeader))
	})
	t.Run("T36 rc.Flush where there is none leaves the header open", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
			w.Header().Set("Cache-Control", "public, max-age=60")
			w.WriteHeader(http.StatusOK)
		})
		require.Empty(t, raw.sent.Get(middleware.TokenHeader))
	})
	t.Run("T36 other controls reach the server", func(t *testing.T) {
		resp := over(t, clientAt(t, "127.0.0.2"), behind(t, func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "ok")
		}).URL, method(http.MethodGet))
		requireWhole(t, resp)
	})
	t.Run("T36 the header is written once under concurrent writers", func(t *testing.T) {
		raw := &writer{header: http.Header{}}
		through(t, raw, http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					if _, err := w.Write([]byte("ok")); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		})
		require.Equal(t, 16, raw.written)
		require.Len(t, raw.sent.Values(middleware.TokenHeader), 1)
		require.Len(t, raw.sent.Values("Set-Cookie"), 1)
	})
	t.Run("T36 Hijack", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Limits[0].Quota = 1
		h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = buf.Flush()
			_ = conn.Close()
		}))
		server, client := serve(t, h), clientAt(t, "127.0.0.2")
		require.Empty(t, tokenIn(over(t, client, server.URL, method(http.MethodGet))), "gone with the connection")
		require.Equal(t, http.StatusTooManyRequests, over(t, client, server.URL, method(http.MethodGet)).StatusCode, "charged before")
	})
}

// An unwrapping is a middleware's writer that only knows how to unwrap.
type unwrapping struct{ http.ResponseWriter }

func (u unwrapping) Unwrap() http.ResponseWriter { return u.ResponseWriter }
