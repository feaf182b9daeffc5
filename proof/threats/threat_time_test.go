// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func TestThreatsOfClocks(t *testing.T) {
	// Two instances, one of them fast.
	skewed := func(t *testing.T, by time.Duration) (now *handlers.Clock, fast, slow http.Handler) {
		now = new(handlers.Clock)
		cfg := handlers.Contact(now)
		slow, _ = handlers.Limited(t, cfg)
		cfg.Now = func() time.Time { return now.Now().Add(by) }
		fast, _ = handlers.Limited(t, cfg)
		return now, fast, slow
	}
	t.Run("T16 clocks differ across a boundary", func(t *testing.T) {
		now, fast, slow := skewed(t, 5*time.Second)
		now.Advance(57 * time.Second) // the fast one is in the next window
		tok := handlers.Spend(t, slow, 5)
		require.Zero(t, handlers.Admitted(slow, 5, handlers.Showing(tok)))
		next := handlers.Spend(t, fast, 5, handlers.Showing(tok))
		total := 10 + handlers.Admitted(fast, 5, handlers.Showing(next)) + handlers.Admitted(slow, 5, handlers.Showing(next)) + handlers.Admitted(slow, 5, handlers.Showing(tok))
		require.LessOrEqual(t, total, 2*5, "no client is moved back into the old window")
		fresh, _ := handlers.Limited(t, handlers.Contact(now))
		require.Zero(t, handlers.Admitted(fresh, 5, handlers.Showing(next)), "a slow one that knows nothing believes what is ahead by the skew")
		now.Advance(3 * time.Second)
		require.Zero(t, handlers.Admitted(slow, 5, handlers.Showing(next)), "and the new window is spent when the slow one gets there")
	})
	t.Run("T16 clocks differ inside a window", func(t *testing.T) {
		now, fast, slow := skewed(t, 5*time.Second)
		now.Advance(30 * time.Second)
		tok := handlers.Spend(t, fast, 3)
		tok = handlers.Spend(t, slow, 2, handlers.Showing(tok))
		require.Zero(t, handlers.Admitted(fast, 5, handlers.Showing(tok))+handlers.Admitted(slow, 5, handlers.Showing(tok)))
	})
	t.Run("T16 a clock too far ahead says nothing", func(t *testing.T) {
		now, fast, slow := skewed(t, 20*time.Second)
		now.Advance(50 * time.Second)
		tok := handlers.Spend(t, fast, 5)
		require.Equal(t, 5, handlers.Admitted(slow, 10, handlers.Showing(tok)))
	})
	t.Run("T16 a bucket, and a clock that is far ahead", func(t *testing.T) {
		for _, by := range []time.Duration{10 * time.Minute, 55 * time.Minute, 2 * time.Hour} {
			now := new(handlers.Clock)
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Second, Algorithm: middleware.TokenBucket}}
			slow, _ := handlers.Limited(t, cfg)
			cfg.Now = func() time.Time { return now.Now().Add(by) }
			fast, _ := handlers.Limited(t, cfg)
			tok := handlers.Spend(t, fast, 1)
			resp := handlers.Send(slow, handlers.Showing(tok, tok)) // by two fields, as some clients do
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("Retry-After"), "%s ahead", by)
			require.NotEmpty(t, handlers.TokenIn(resp), "an echoing client learns of a clock that is right")
			now.Advance(time.Second)
			require.Equal(t, 5, handlers.Admitted(slow, 10, handlers.Showing(tok)), "and one that does not take it is not locked out either")
		}
	})
	t.Run("T17 burst at the boundary", func(t *testing.T) {
		for algorithm, want := range map[middleware.Limit]int{
			{Quota: 100, Window: time.Minute}:                                                100,
			{Quota: 100, Window: time.Minute, Algorithm: middleware.FixedWindow}:             200,
			{Quota: 100, Window: time.Minute, Algorithm: middleware.TokenBucket, Burst: 100}: 101,
			{Quota: 100, Window: time.Minute, Algorithm: storeless.LeakyBucket}:              2,
		} {
			now := new(handlers.Clock)
			cfg := handlers.Contact(now)
			cfg.Limits = []middleware.Limit{algorithm}
			h, _ := handlers.Limited(t, cfg)
			now.Advance(time.Minute - 300*time.Millisecond)
			burst := handlers.Admitted(h, 300)
			now.Advance(600 * time.Millisecond)
			require.Equal(t, want, burst+handlers.Admitted(h, 300), "%s", algorithm.Algorithm)
		}
	})
	t.Run("T46 the clock steps back", func(t *testing.T) {
		for _, limit := range []middleware.Limit{
			{Quota: 5, Window: time.Minute},
			{Quota: 5, Window: time.Minute, Algorithm: middleware.FixedWindow},
			{Quota: 5, Window: time.Minute, Algorithm: middleware.TokenBucket},
		} {
			for _, back := range []time.Duration{2 * time.Second, time.Hour} { // within the skew, and beyond it
				now := new(handlers.Clock)
				now.Advance(24*time.Hour + time.Second)
				cfg := handlers.Contact(now)
				cfg.Limits = []middleware.Limit{limit}
				h, _ := handlers.Limited(t, cfg)
				tok := handlers.Spend(t, h, 5)
				now.Advance(-back)
				require.Zero(t, handlers.Admitted(h, 5), "%s, %s: no fresh quota", limit.Algorithm, back)
				require.Zero(t, handlers.Admitted(h, 5, handlers.Showing(tok)), "%s, %s: not with the old token either", limit.Algorithm, back)
				now.Advance(3 * time.Minute)
				require.Equal(t, 5, handlers.Admitted(h, 10, handlers.Showing(tok)), "%s, %s: and no client is locked out until then", limit.Algorithm, back)
			}
		}
	})
	t.Run("T46 and forward again", func(t *testing.T) {
		now := new(handlers.Clock)
		h, _ := handlers.Limited(t, handlers.Contact(now))
		require.Equal(t, 5, handlers.Admitted(h, 5))
		now.Advance(100 * 24 * time.Hour)
		require.Equal(t, 5, handlers.Admitted(h, 5))
		now.Advance(-100 * 24 * time.Hour)
		require.Zero(t, handlers.Admitted(h, 5))
	})
}

func TestThreatsOfNumbers(t *testing.T) {
	_, header, payload := handlers.Genuine(t, 1)
	counts := func(s string) string {
		return handlers.Thief(t, header, strings.Replace(payload, ",1,0]}", ","+s+",0]}", 1))
	}

	t.Run("T18 counts that are no counts", func(t *testing.T) {
		for _, s := range []string{"-1", "-0", "1.5", "1e3", "01", "+1", "4294967296", "4294967295", "2147483648", "99999999999999999999", "null", `"1"`, "[1]", "1 ", ""} {
			requireAbsent(t, counts(s))
		}
	})
	t.Run("T18 the largest count stays blocked", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		tok := counts("2147483647")
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, handlers.Showing(tok)))
		require.Equal(t, `"contact";r=0;t=60`, resp.Header.Get("RateLimit"))
		require.Zero(t, handlers.Admitted(h, 5, handlers.Showing(tok)))
	})
	t.Run("T18 the largest cost", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Cost = handlers.CostOf
		cfg.Limits[0].Quota = math.MaxInt32
		h := handlers.NewSite(t, cfg)
		require.Equal(t, 1, handlers.Admitted(h, 2, handlers.Costing(math.MaxInt32)))
		for _, cost := range []int64{math.MaxInt32 + 1, math.MaxUint32, math.MaxInt64} {
			require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Costing(cost)).StatusCode)
			require.Equal(t, middleware.CostAboveQuota, h.Decisions.Last().Reason)
		}
		require.Equal(t, http.StatusInternalServerError, handlers.Send(h, handlers.Costing(math.MinInt64)).StatusCode)
	})
}

func TestThreatsOfPolicyChanges(t *testing.T) {
	// change has a client use a part of its quota, and then changes the limits.
	change := func(t *testing.T, used int, limits ...middleware.Limit) (h *handlers.Site, shown handlers.Option) {
		cfg := handlers.Contact(new(handlers.Clock))
		h = handlers.NewSite(t, cfg)
		tok := handlers.Spend(t, h, used)
		cfg.Limits = limits
		require.NoError(t, h.M.Reconfigure(cfg))
		return h, handlers.Showing(tok)
	}
	t.Run("T43 lower the quota in the middle of a window", func(t *testing.T) {
		h, shown := change(t, 3, handlers.Fixed(2, time.Minute))
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, shown))
		require.Equal(t, `"contact";r=0;t=60`, resp.Header.Get("RateLimit"), "0, not -1")
		require.Equal(t, `"contact";q=2;w=60`, resp.Header.Get("RateLimit-Policy"))
	})
	t.Run("T43 raise it", func(t *testing.T) {
		h, shown := change(t, 5, handlers.Fixed(20, time.Minute))
		require.Equal(t, `"contact";r=14;t=60`, handlers.Send(h, shown).Header.Get("RateLimit"))
	})
	t.Run("T43 add a limit", func(t *testing.T) {
		h, shown := change(t, 3, handlers.Fixed(5, time.Minute), handlers.Fixed(9, time.Hour))
		require.Equal(t, `"contact";r=1;t=60, "contact-1h";r=8;t=3600`, handlers.Send(h, shown).Header.Get("RateLimit"))
	})
	t.Run("T43 change the window, which is another limit", func(t *testing.T) {
		h, shown := change(t, 5, handlers.Fixed(5, time.Hour))
		require.Equal(t, 5, handlers.Admitted(h, 9, shown))
	})
	t.Run("T43 fall to a lower tier", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Tiers = map[string][]middleware.Limit{"pro": {cfg.Limits[0]}}
		cfg.Tiers["pro"][0].Quota = 50
		tier := "pro"
		cfg.Identity = func(*http.Request) (middleware.Identity, error) {
			id := middleware.APIKey("customer-17")
			id.Tier = tier
			return id, nil
		}
		h, _ := handlers.Limited(t, cfg)
		tok := handlers.Spend(t, h, 20)
		tier = ""
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, handlers.Showing(tok)))
		require.Equal(t, `"contact";r=0;t=60`, resp.Header.Get("RateLimit"))
		wait := kit.Must(strconv.Atoi(resp.Header.Get("Retry-After")))(t)
		require.GreaterOrEqual(t, wait, 60)
	})
}

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
			require.Equal(t, reached, s.Calls.Load() == 1)

			again := handlers.Over(t, client, server.URL+"/login", handlers.Method("GET"))
			require.Equal(t, reached, again.StatusCode == http.StatusTooManyRequests, "charged if, and only if, it got through")
		})
	}
}

func TestThreatsOfFloods(t *testing.T) {
	const strangers = 20_000
	victim := handlers.With("Victim", "1")

	t.Run("T29 refusals cost no memory", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h, _ := handlers.Limited(t, cfg)
		handlers.Admitted(h, 5)
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		handlers.From("203.0.113.1")(r)
		w := &handlers.Sink{Fields: http.Header{}}
		before := heap()
		for range strangers {
			clear(w.Fields)
			h.ServeHTTP(w, r)
		}
		require.Less(t, heap()-before, int64(64<<10))
		require.Contains(t, w.Fields, "Retry-After")
	})
	t.Run("T30 forged tokens count for nothing", func(t *testing.T) {
		tok, _, _ := handlers.Genuine(t, 1)
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		for i := range 100 {
			forged := tok[:64] + strings.Repeat(string(rune('A'+i%26)), len(tok)-64-44) + "." + strings.Repeat("A", 43)
			handlers.Send(h, handlers.Showing(forged, forged, forged, forged, forged, forged))
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "bad signature")
		}
		require.EqualValues(t, 5, h.Spy.Calls.Load())
	})
	t.Run("T31 a flood of strangers does not wash out a count", func(t *testing.T) {
		f := handlers.NewFlood(handlers.Contact(new(handlers.Clock)))
		log, decisions := handlers.LogTo(&f.Cfg), handlers.Recorded{}
		f.Cfg.OnDecision = func(_ context.Context, d middleware.Decision) { decisions.All = append(decisions.All[:0], d) }
		m := handlers.NewLimiter(t, f.Cfg)
		h := m.Handler(new(handlers.Spy))
		require.Equal(t, 5, handlers.Admitted(h, 10, victim))

		f.Send(h, 1000)
		before := heap()
		f.Send(h, strangers)
		require.Less(t, heap()-before, int64(64<<10), "twenty times what the memory is made for")
		require.Positive(t, decisions.Last().Inherited, "which the decision says")
		require.Positive(t, m.Stats().Inherited)
		require.Zero(t, m.Stats().Saturations)
		require.Len(t, log.Lines(), 1, "one line")
		require.Contains(t, log.Lines()[0], "saturated")
		require.Zero(t, handlers.Admitted(h, 10, victim), "the victim of the wash-out is still counted")
	})
	t.Run("T31 alarms do not flood the log", func(t *testing.T) {
		now := new(handlers.Clock)
		f := handlers.NewFlood(handlers.Contact(now))
		f.Cfg.MaxClients = 1
		log := handlers.LogTo(&f.Cfg)
		h := handlers.NewLimiter(t, f.Cfg).Handler(new(handlers.Spy))
		for minute := range 3 {
			f.Send(h, 1000)
			require.Len(t, log.Lines(), minute+1)
			now.Advance(59 * time.Second)
			f.Send(h, 1000)
			require.Len(t, log.Lines(), minute+1, "not before a minute has passed")
			now.Advance(-time.Second)
			f.Send(h, 1000)
			require.Len(t, log.Lines(), minute+1, "nor because a clock trembles")
			now.Advance(2 * time.Second)
		}
		now.Advance(-time.Hour)
		f.Send(h, 1000)
		require.Len(t, log.Lines(), 5, "but a clock that was an hour fast does not silence it for the hour")
		require.Contains(t, log.Lines()[3], "code=clock-jumped", "and is told of itself, before what comes of it")
	})
	t.Run("T31 a saturated memory still goes by the token", func(t *testing.T) {
		f := handlers.NewFlood(handlers.Contact(new(handlers.Clock)))
		f.Cfg.MaxClients = 1
		m := handlers.NewLimiter(t, f.Cfg)
		h := m.Handler(new(handlers.Spy))
		f.Send(h, 20)
		tok := handlers.Spend(t, handlers.NewLimiter(t, f.Cfg).Handler(new(handlers.Spy)), 5, victim)
		require.Equal(t, http.StatusTooManyRequests, handlers.Send(h, victim, handlers.Showing(tok)).StatusCode)
		require.Equal(t, http.StatusOK, handlers.Send(h, victim).StatusCode, "whose bearer is new here")
	})
}

func TestWithoutMemory(t *testing.T) {
	cfg := handlers.Contact(new(handlers.Clock))
	cfg.InsecureNoMemory = true
	h := handlers.NewSite(t, cfg)
	stats := h.M.Stats()
	for _, counts := range []map[string]uint64{stats.Proofs, stats.Tokens} {
		for what, n := range counts {
			require.Zero(t, n, what)
		}
	}
	require.Equal(t, middleware.Stats{Policy: "contact", Proofs: stats.Proofs, Tokens: stats.Tokens, KeyIDs: []string{"83YK"}, TokenLife: stats.TokenLife}, stats)
	require.Equal(t, 100, handlers.Admitted(h, 100), "no memory, no bound: as its name says")
	tok := handlers.Spend(t, h, 5)
	require.Zero(t, handlers.Admitted(h, 5, handlers.Showing(tok)), "but for a client that echoes")
	require.Equal(t, 6, handlers.Admitted(h, 6, handlers.From("2001:db8::1")), "IPv6 networks are counted in memory only")
}

// heap returns how many bytes live.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
