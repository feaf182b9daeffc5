// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

func TestThreatsOfRequests(t *testing.T) {
	t.Run("T37 the client goes away before reading", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := &handlers.Spy{Serve: func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			require.Equal(t, ctx.Err(), r.Context().Err(), "the handler sees the client go")
		}}
		h := handlers.NewLimiter(t, handlers.Contact(new(handlers.Clock))).Handler(s)
		handlers.Send(h, func(r *http.Request) { *r = *r.WithContext(ctx) })
		s.Serve = nil
		require.Equal(t, 4, handlers.Admitted(h, 10), "charged all the same")
	})
	t.Run("T39 preflights are neither charged nor refused", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		preflight := []handlers.Option{handlers.Method(http.MethodOptions), handlers.With("Origin", "https://app.example", "Access-Control-Request-Method", "POST")}
		for range 20 {
			resp := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, preflight...))
			require.Empty(t, resp.Header.Values(middleware.TokenHeader))
			require.Empty(t, resp.Header.Values("Cache-Control"), "the response is the handler's alone")
		}
		require.EqualValues(t, 20, h.Spy.Calls.Load())
		require.Empty(t, h.Decisions.All)
		require.Equal(t, 5, handlers.Admitted(h, 10))
		require.Equal(t, http.StatusOK, handlers.Send(h, preflight...).StatusCode, "not even of the spent")
	})
	t.Run("T39 no browser sends a preflight with credentials or a body", func(t *testing.T) {
		preflight := []handlers.Option{handlers.Method(http.MethodOptions), handlers.With("Origin", "https://app.example", "Access-Control-Request-Method", "POST")}
		for _, more := range []handlers.Option{
			handlers.With("Cookie", "session=1"), handlers.With("Authorization", "Bearer x"), handlers.With("Proxy-Authorization", "Basic x"), handlers.With("X-Api-Key", "k"),
			handlers.With(middleware.TokenHeader, "t"), handlers.With(middleware.ProofHeader, "p"),
			handlers.With("X-HTTP-Method-Override", "POST"), handlers.With("X-HTTP-Method", "POST"), handlers.With("X-Method-Override", "POST"),
			func(r *http.Request) { r.ContentLength = 5 }, func(r *http.Request) { r.ContentLength = -1 },
		} {
			h, spy := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			handlers.Admitted(h, 20, append(preflight, more)...)
			require.EqualValues(t, 5, spy.Calls.Load())
			require.Equal(t, http.StatusTooManyRequests, handlers.Send(h).StatusCode)
		}
	})
	t.Run("T39 what merely looks like a preflight is charged", func(t *testing.T) {
		for name, options := range map[string][]handlers.Option{
			"OPTIONS":                {handlers.Method(http.MethodOptions)},
			"OPTIONS with Origin":    {handlers.Method(http.MethodOptions), handlers.With("Origin", "https://app.example")},
			"OPTIONS without Origin": {handlers.Method(http.MethodOptions), handlers.With("Access-Control-Request-Method", "POST")},
			"POST with both":         {handlers.With("Origin", "https://app.example", "Access-Control-Request-Method", "POST")},
			"lower case":             {handlers.Method("options"), handlers.With("Origin", "https://app.example", "Access-Control-Request-Method", "POST")},
			"HEAD":                   {handlers.Method(http.MethodHead)},
			"TRACE":                  {handlers.Method(http.MethodTrace)},
			"an unknown method":      {handlers.Method("BREW")},
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, 5, handlers.Admitted(h, 10, options...), name)
			require.Zero(t, handlers.Admitted(h, 1), name)
		}
	})
	t.Run("T44 the body is not read", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		huge := func(r *http.Request) { r.Body = io.NopCloser(unreadable{t}) }
		require.Equal(t, 5, handlers.Admitted(h, 10, huge))
	})
	t.Run("T47 control bytes in a token", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, nil }
		h := handlers.NewSite(t, cfg)
		evil := "evil\r\nlevel=ERROR msg=\"\x1b[31mowned\""
		handlers.Send(h, handlers.Showing(evil), handlers.ShowingCookie(evil), handlers.With("User-Agent", evil, "X-Forwarded-For", evil), handlers.Path("/"+evil))
		require.Len(t, h.Log.Lines(), 1)
		require.NotContains(t, h.Log.Lines()[0], "evil")
		require.NotContains(t, h.Log.Lines()[0], "\x1b")
	})
	t.Run("T47 nothing is logged of a token that is refused", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		handlers.Admitted(h, 10, handlers.Showing("evil", strings.Repeat("evil", 1000)))
		require.Empty(t, h.Log.Lines())
	})
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// ServeMux cleans paths and decodes them: what reaches the handler by whatever
// spelling has been charged, and what is redirected has not reached it.
func TestThreatsOfPaths(t *testing.T) {
	now := new(handlers.Clock)
	cfg := handlers.Contact(now)
	cfg.Limits[0].Quota = 1
	s := new(handlers.Spy)
	login := handlers.NewLimiter(t, cfg).Handler(s)
	mux := http.NewServeMux()
	mux.Handle("GET /login", login)
	mux.Handle("POST /login", login)
	server := handlers.Serve(t, mux)

	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/login", 200},
		{"POST", "/login", 200},
		{"HEAD", "/login", 200},
		{"POST", "/%6cogin", 200},
		{"POST", "/login?x=/../other", 200},
		{"POST", "/login%2f", 404},
		{"POST", "//login", 307},
		{"POST", "/./login", 307},
		{"POST", "/x/../login", 307},
		{"POST", "/login/", 404},
		{"POST", "/LOGIN", 404},
		{"PUT", "/login", 405},
	} {
		t.Run("T41 "+test.method+" "+test.path, func(t *testing.T) {
			s.Calls.Store(0)
			client := handlers.ClientAt(t, "127.0.0.2")
			now.Advance(cfg.Limits[0].Window)
			require.Equal(t, test.status, handlers.Over(t, client, server.URL+test.path, handlers.Method(test.method)).StatusCode)
			reached := test.status == http.StatusOK
			require.Equal(t, handlers.BoolToInt(reached), int(s.Calls.Load()))

			again := handlers.Over(t, client, server.URL+"/login", handlers.Method("GET"))
			require.Equal(t, reached, again.StatusCode == http.StatusTooManyRequests, "charged if, and only if, it got through")
		})
	}
}
