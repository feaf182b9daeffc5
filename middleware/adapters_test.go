// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A frame is what a framework like gin hands its handlers: the request, and a writer of
// its own around that of the server.
type frame struct {
	request *http.Request
	writer  http.ResponseWriter
}

// A frameWriter holds the status back until the body begins, as gin's does.
type frameWriter struct {
	http.ResponseWriter
	status int
}

func (w *frameWriter) WriteHeader(status int) { w.status = status }

func (w *frameWriter) Write(b []byte) (int, error) {
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
		w.status = 0
	}
	return w.ResponseWriter.Write(b)
}

// adapted serves a framework's handler behind the limiter. The adapter that comes to mind
// first hands the request on, but not the writer; the whole one hands on both.
func adapted(limiter *middleware.Middleware, whole bool, handle func(*frame)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := &frame{r, &frameWriter{ResponseWriter: w}}
		limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.request = r; whole {
				f.writer = w
			}
			handle(f)
		})).ServeHTTP(f.writer, r)
	})
}

func TestFrameworks(t *testing.T) {
	page := func(f *frame) {
		if f.request.URL.Path == "/public" {
			f.writer.Header().Set("Cache-Control", "public, max-age=60")
		}
		f.writer.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(f.writer, "ok")
	}
	for _, test := range []struct {
		name   string
		whole  bool
		method string
		path   string
		fields bool
	}{
		{"whole", true, http.MethodGet, "/", true},
		{"whole", true, http.MethodPost, "/", true},
		{"whole", true, http.MethodGet, "/public", false},
		{"past our writer", false, http.MethodPost, "/", true},
		{"past our writer", false, http.MethodDelete, "/", true},
		// There nothing would keep the token out of a cache.
		{"past our writer", false, http.MethodGet, "/", false},
		{"past our writer", false, http.MethodGet, "/public", false},
	} {
		t.Run(test.name+", "+test.method+" "+test.path, func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.TokenTransport = middleware.HeaderAndCookie
			server := serve(t, adapted(newLimiter(t, cfg), test.whole, page))
			resp := over(t, clientAt(t, "127.0.0.2"), server.URL+test.path, method(test.method))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			if test.fields {
				requireWhole(t, resp)
				return
			}
			for _, name := range []string{middleware.TokenHeader, "Set-Cookie", "RateLimit"} {
				require.Empty(t, resp.Header.Values(name), name)
			}
		})
	}
	t.Run("past our writer, with a proof", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.TokenTransport = middleware.HeaderAndCookie
		site := newSite(t, cfg)
		proof := solve(t, challengeIn(t, fetched(site)))
		resp := send(adapted(site.m, false, page), proving(proof))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NotEmpty(t, tokenIn(resp), "it has been paid for")
	})
}
