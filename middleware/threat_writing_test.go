// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// requireWhole checks that a response carries all that it should, each once.
func requireWhole(t *testing.T, resp *http.Response) {
	t.Helper()
	for _, name := range []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy"} {
		require.Len(t, resp.Header.Values(name), 1, name)
		require.NotEqual(t, "upstream's", resp.Header.Get(name), name)
		require.Empty(t, resp.Trailer.Values(name), name)
	}
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	require.NotNil(t, cookieIn(resp))
	require.Empty(t, resp.Header.Values("Retry-After"))
}

// behind serves a handler behind the limiter on a real server.
func behind(t *testing.T, handler http.HandlerFunc, around ...func(http.Handler) http.Handler) *httptest.Server {
	cfg := contact(new(clock))
	h := newLimiter(t, cfg).Handler(handler)
	for _, wrap := range around {
		h = wrap(h)
	}
	return serve(t, h)
}

// The lines of the table of T36: what handlers do to headers that were set before they ran, or try to do after.
func TestThreatsOfWriting(t *testing.T) {
	files := http.FileServerFS(fstest.MapFS{"a": {Data: []byte("ok"), ModTime: midnight}})
	panics := func(w http.ResponseWriter, _ *http.Request) {
		clear(w.Header())
		panic("handler")
	}
	for name, row := range map[string]struct {
		status  int
		handler http.HandlerFunc
		around  func(http.Handler) http.Handler
	}{
		"the handler writes before we could": {200, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, plain},
		"FileServer error":                   {404, func(w http.ResponseWriter, r *http.Request) { r.URL.Path = "/missing"; files.ServeHTTP(w, r) }, plain},
		"ServeContent error": {416, func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/a"
			r.Header.Set("Range", "bytes=100-200")
			files.ServeHTTP(w, r)
		}, plain},
		"http.Error": {418, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) }, plain},
		"the handler replaces Cache-Control": {200, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			w.WriteHeader(http.StatusOK)
		}, plain},
		"the handler clears the map": {200, func(w http.ResponseWriter, _ *http.Request) { clear(w.Header()); w.WriteHeader(http.StatusOK) }, plain},
		"the handler sets the same names": {200, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy", "Cache-Control"} {
				w.Header().Add(name, "upstream's")
				w.Header().Add(name, "upstream's")
			}
		}, plain},
		"the handler writes nothing": {200, func(http.ResponseWriter, *http.Request) {}, plain},
		"set after write": {200, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum")
			_, _ = io.WriteString(w, "ok")
			clear(w.Header())
			w.Header().Set("RateLimit", "upstream's")
			w.Header().Set(http.TrailerPrefix+"Late", "1")
			_, _ = io.WriteString(w, "ok")
		}, plain},
		"a panic before the first write, recovered outside": {500, panics, recoverer},
		"a panic before the first write, recovered inside":  {500, recoverer(http.HandlerFunc(panics)).ServeHTTP, plain},
	} {
		t.Run("T36 "+name, func(t *testing.T) {
			resp := over(t, clientAt(t, "127.0.0.2"), behind(t, row.handler, row.around).URL, method(http.MethodGet))
			requireWhole(t, requireStatus(t, row.status, resp))
		})
	}
	t.Run("T36 a panic before the first write, not recovered", func(t *testing.T) {
		aborting := newLimiter(t, contact(new(clock))).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}))
		for range 5 {
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { send(aborting, method(http.MethodGet)) })
		}
		require.Equal(t, http.StatusTooManyRequests, send(aborting).StatusCode, "each was charged")
	})
}

func recoverer(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				http.Error(w, "internal error", http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// stuck returns a handler that is still busy when its time is over, and a
// function that lets it go and waits until it has.
func stuck(h func(http.Handler) http.Handler) (handler http.Handler, release func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	inner := h(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-end
		w.WriteHeader(http.StatusOK)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			inner.ServeHTTP(w, r)
		}), func() {
			close(end)
			<-ended
		}
}

func timeout(h http.Handler) http.Handler { return http.TimeoutHandler(h, time.Nanosecond, "too slow") }

func TestThreatsOfTimeouts(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		t.Run("T36 TimeoutHandler inside, "+m, func(t *testing.T) {
			slow, release := stuck(plain)
			resp := over(t, clientAt(t, "127.0.0.2"), behind(t, timeout(slow).ServeHTTP).URL, method(m))
			release()
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			requireWhole(t, resp)
		})
		t.Run("T36 TimeoutHandler outside loses the token, not the charge, "+m, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.Limits[0].Quota = 1
			decisions := record(&cfg)
			limiter := newLimiter(t, cfg)
			slow, release := stuck(limiter.Handler)
			resp := over(t, clientAt(t, "127.0.0.2"), serve(t, timeout(slow)).URL, method(m))
			release()
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			require.Empty(t, tokenIn(resp))
			require.True(t, decisions.Last().Admitted)
			require.Equal(t, http.StatusTooManyRequests, send(limiter.Handler(new(spy)), from("127.0.0.2")).StatusCode)
		})
	}
}

func TestThreatsOfEarlyHints(t *testing.T) {
	hints := func(t *testing.T, handler http.HandlerFunc) (seen []textproto.MIMEHeader, resp *http.Response) {
		resp = over(t, clientAt(t, "127.0.0.2"), behind(t, handler).URL, method(http.MethodGet), early(&seen))
		return seen, resp
	}
	t.Run("T36 WriteHeader(103)", func(t *testing.T) {
		early, resp := hints(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		})
		require.Len(t, early, 2)
		for _, h := range early {
			require.NotEmpty(t, h.Get("Link"))
			require.Empty(t, h.Get(middleware.TokenHeader))
			require.Empty(t, h.Get("Set-Cookie"))
			require.Empty(t, h.Get("RateLimit"))
			require.NotContains(t, h, "Transfer-Encoding")
		}
		requireWhole(t, resp)
	})

	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		for _, name := range []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy"} {
			w.Header().Set(name, "upstream's")
		}
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = io.WriteString(w, "ok")
	}))
	t.Run("T36 ReverseProxy, upstream sends a 103 and the same names", func(t *testing.T) {
		early, resp := hints(t, proxyTo(t, upstream.URL).ServeHTTP)
		require.Len(t, early, 1)
		require.Empty(t, early[0].Get(middleware.TokenHeader))
		requireWhole(t, resp)
	})
	t.Run("T36 ReverseProxy, upstream is down", func(t *testing.T) {
		down := httputil.NewSingleHostReverseProxy(mustURL(t, upstream.URL))
		down.Transport = failing{}
		down.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
		_, resp := hints(t, down.ServeHTTP)
		require.Equal(t, http.StatusBadGateway, resp.StatusCode)
		requireWhole(t, resp)
	})
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("down") }
