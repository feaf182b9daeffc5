// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

type frame struct {
	request *http.Request
	writer  http.ResponseWriter
}

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
		name         string
		whole        bool
		method, path string
		fields       bool
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
			server := serve(t, adapted(newLimiter(t, cfg), test.whole, page))
			resp := requireStatus(t, http.StatusOK, over(t, clientAt(t, "127.0.0.2"), server.URL+test.path, method(test.method)))
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
		site := newSite(t, cfg)
		proof := solve(t, challengeIn(t, fetched(site)))
		resp := requireStatus(t, http.StatusOK, send(adapted(site.M, false, page), proving(proof)))
		require.NotEmpty(t, tokenIn(resp), "it has been paid for")
	})
}

// http.MaxBytesReader asks the writer that it is given to close the connection, by a method
// that none but the server's own can have. So the limit of bodies belongs outside of the
// limiter; inside of it the body is limited as well, and the connection lives on.
func TestTheLimitOfBodiesBelongsOutside(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	limit := newLimiter(t, contact(new(clock)))
	for _, test := range []struct {
		name   string
		h      http.Handler
		closes bool
	}{
		{"outside", http.MaxBytesHandler(limit.Handler(handler), 10), true},
		{"inside", limit.Handler(http.MaxBytesHandler(handler, 10)), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.h)
			defer server.Close()
			resp, err := server.Client().Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", 1000)))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			require.NotEmpty(t, resp.Header.Get("Tallystick-Token"))
			require.Equal(t, test.closes, resp.Close)
		})
	}
}

func allowing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", strings.Join(middleware.CORSAllowHeaders(), ", "))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Access-Control-Expose-Headers", strings.Join(middleware.CORSExposeHeaders(), ", "))
		h.ServeHTTP(w, r)
	})
}

func TestCORSLists(t *testing.T) {
	require.Equal(t, []string{"Tallystick-Token", "Tallystick-Proof"}, middleware.CORSAllowHeaders())
	require.Equal(t, []string{"Tallystick-Token", "Tallystick-Challenge", "RateLimit", "RateLimit-Policy", "Retry-After", "Tallystick-Degraded"}, middleware.CORSExposeHeaders())

	t.Run("are nobody's to change", func(t *testing.T) {
		middleware.CORSAllowHeaders()[0] = "edited"
		middleware.CORSExposeHeaders()[0] = "edited"
		require.NotContains(t, append(middleware.CORSAllowHeaders(), middleware.CORSExposeHeaders()...), "edited")
	})
	t.Run("name every field that a script may want", func(t *testing.T) {
		h, _ := limited(t, contact(new(clock)))
		admitted(h, 5)
		resp := send(h)
		safelisted := []string{"Cache-Control", "Content-Type", "Content-Length"} // Fetch, 2.2.2
		forBrowsers := []string{"Vary", "Set-Cookie", "X-Content-Type-Options"}   // of no use to scripts, or hidden from them
		named := append(append(safelisted, forBrowsers...), middleware.CORSExposeHeaders()...)
		for name := range resp.Header {
			require.True(t, contains(named, name), "%s is sent: a script of another origin reads it only if CORSExposeHeaders has it", name)
		}
	})
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// Refusals need the CORS fields as much as anything else: a script could not read Retry-After without them.
func TestInsideOfCORS(t *testing.T) {
	h, spy := limited(t, contact(new(clock)))
	server, client := serve(t, allowing(h)), clientAt(t, "127.0.0.2")
	preflight := []option{method(http.MethodOptions), with("Origin", "https://app.example", "Access-Control-Request-Method", "POST")}
	for range 10 {
		require.Equal(t, http.StatusNoContent, over(t, client, server.URL, preflight...).StatusCode)
	}
	require.Equal(t, 5, admittedOver(t, client, server.URL, 5, with("Origin", "https://app.example")))
	resp := requireStatus(t, http.StatusTooManyRequests, over(t, client, server.URL, with("Origin", "https://app.example")))
	require.Equal(t, "https://app.example", resp.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, resp.Header.Get("Access-Control-Expose-Headers"), "Retry-After")
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.EqualValues(t, 5, spy.Calls.Load())
}
