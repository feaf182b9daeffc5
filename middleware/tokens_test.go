// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// Whether a token is known by sight or read makes no difference: the same trace gives the same answers, decisions and
// counts. Clients of several tiers and things show any of the tokens that any client was ever sent, also broken ones,
// by header and cookie; costs are given back and settled; secrets and limits change; instances start anew, and clocks
// step.
func TestKnownBySightIsRead(t *testing.T) {
	seeds := uint64(12)
	if !kit.Whole() {
		seeds = 2
	}
	for name, limits := range map[string][]middleware.Limit{
		"fixed":   {{Algorithm: middleware.FixedWindow, Quota: 4, Window: 4 * time.Second}},
		"sliding": {{Quota: 5, Window: 3 * time.Second}, {Name: "long", Quota: 6, Window: 4 * time.Second}},
		"buckets": {{Algorithm: middleware.TokenBucket, Quota: 10, Window: 15 * time.Second, Burst: 4}},
		"both":    {{Quota: 5, Window: 4 * time.Second}, {Name: "bucket", Algorithm: middleware.TokenBucket, Quota: 4, Window: 6 * time.Second}},
	} {
		for kind, change := range map[string]func(*middleware.Config){
			"plain": func(*middleware.Config) {},
			"shadow": func(cfg *middleware.Config) {
				cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "tried", Quota: 2, Window: 4 * time.Second, Shadow: true})
			},
			"cookie": func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
			"outcome": func(cfg *middleware.Config) {
				cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "wrong", Quota: 4, Window: 4 * time.Second})
				cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"wrong"}}
			},
			"exhausted": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Work: 64, Path: "/tally/"} },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				known := 0
				for seed := range seeds {
					known += playKnown(t, seed, limits, change)
				}
				require.Positive(t, known)
			})
		}
	}
}

// playKnown plays one trace, and returns how many tokens were shown that were known.
func playKnown(t *testing.T, seed uint64, limits []middleware.Limit, change func(*middleware.Config)) (known int) {
	c, rnd, secrets := new(clock), random(seed), [][]byte{secret("a")}
	cfg := func() middleware.Config {
		cfg := contact(c)
		cfg.Secrets, cfg.Limits = slices.Clone(secrets), slices.Clone(limits)
		change(&cfg)
		large := slices.Clone(cfg.Limits)
		large[0].Quota *= 2
		cfg.Tiers = map[string][]middleware.Limit{"pro": large}
		cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
			id, err := middleware.PeerAddress(r)
			id.Tier = r.Header.Get("Tier")
			return id.For(r.Header.Get("Thing")), err
		}
		cfg.Cost = func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
			return n
		}
		return cfg
	}
	var (
		all       [2]*middleware.Middleware // the second reads always
		decisions [2]*handlers.Recorded
	)
	start := func(anew bool) {
		for i := range all {
			cfg := cfg()
			if anew {
				decisions[i] = record(&cfg)
				all[i] = newLimiter(t, cfg)
			} else {
				decisions[i].Hear(&cfg)
				require.NoError(t, all[i].Reconfigure(cfg))
			}
		}
		all[1].ReadAlways()
	}
	start(true)
	afterwards := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Then") {
		case "refund":
			_ = middleware.Refund(w, r) // there may be nothing to give back
		case "settle":
			_ = middleware.Settle(r, 3)
		}
	})
	tokens := []string{"", "x"}
	newest := map[string]string{}
	for step := range 150 {
		c.Advance(time.Duration(rnd.IntN(900)) * time.Millisecond)
		switch rnd.IntN(40) {
		case 0:
			c.Advance(-time.Duration(rnd.IntN(3000)) * time.Millisecond)
		case 1:
			secrets = append([][]byte{secret(fmt.Sprint(step))}, secrets[:min(len(secrets), 1+rnd.IntN(2))]...)
			start(false)
		case 2:
			limits = slices.Clone(limits)
			limits[0].Quota = 3 + rnd.Int64N(4)
			start(false)
		case 3:
			c.Advance(15 * time.Second) // the newest token has expired, whose cells are not taken yet
		case 4:
			start(rnd.IntN(2) == 0)
		}
		addr := []string{"203.0.113.1", "2001:db8::1"}[rnd.IntN(2)]
		thing, tier := []string{"", "", "shop"}[rnd.IntN(3)], []string{"", "", "pro"}[rnd.IntN(3)]
		id := address(addr).For(thing)
		id.Tier = tier
		shown := []string{newest[addr+thing]}
		for range rnd.IntN(3) * rnd.IntN(2) {
			shown = append(shown, tokens[rnd.IntN(len(tokens))])
		}
		if i := rnd.IntN(4 * len(shown)); i < len(shown) && len(shown[i]) > 100 {
			b := []byte(shown[i])
			b[len(b)-1-rnd.IntN(len(b)/2)]++
			shown[i] = string(b)
		}
		rnd.Shuffle(len(shown), func(i, j int) { shown[i], shown[j] = shown[j], shown[i] })
		if _, ok := all[0].KnowsBySight(id, shown[0]); ok {
			known++
		}
		shows := []func(...string) option{showing, showingCookie}[rnd.IntN(2)]
		then := []string{"", "", "", "refund", "settle"}[rnd.IntN(5)]
		at := fmt.Sprintf("seed %d, step %d: %s %s %s, then %s", seed, step, addr, tier, thing, then)
		var got [2]*http.Response
		for i, m := range all {
			got[i] = send(m.Handler(afterwards), from(addr), shows(shown...),
				with("Tier", tier, "Thing", thing, "Then", then, "Cost", strconv.Itoa(1+step%2)))
			for _, byLot := range []string{middleware.ChallengeHeader, "Retry-After"} {
				got[i].Header.Del(byLot)
			}
		}
		require.Equal(t, got[1].StatusCode, got[0].StatusCode, at)
		require.Equal(t, got[1].Header, got[0].Header, at)
		require.Equal(t, all[1].Stats().Tokens, all[0].Stats().Tokens, at)
		d, want := decisions[0].Last(), decisions[1].Last()
		require.Equal(t, want.Tokens, d.Tokens, at)
		require.Equal(t, want.TokenErr, d.TokenErr, at)
		require.Equal(t, want.Reason, d.Reason, at)
		require.Equal(t, want.Limits(), d.Limits(), at)
		tok := tokenIn(got[0])
		if cookie := cookieIn(got[0]); cookie != nil {
			tok = cookie.Value
		}
		if tok != "" {
			tokens, newest[addr+thing] = append(tokens, tok), tok
		}
	}
	return known
}

// A client that was never wrong has no cell in a limit that counts by outcome, and its token says nothing of it: it is
// known all the same.
func TestKnownBySightWithoutACell(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "wrong", Quota: 3, Window: time.Minute})
	cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"wrong"}, Free: []int{http.StatusOK}}
	m := newLimiter(t, cfg)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	tok := tokenIn(send(h, from("203.0.113.1")))
	tok = tokenIn(send(h, from("203.0.113.1"), showing(tok)))
	_, known := m.KnowsBySight(address("203.0.113.1"), tok)
	require.True(t, known)
}

func TestTokenLife(t *testing.T) {
	bucket := middleware.Limit{Name: "b", Algorithm: middleware.TokenBucket, Quota: 1, Window: time.Minute, Burst: 60}
	for name, tt := range map[string]struct {
		change func(*middleware.Config)
		want   time.Duration
	}{
		"a window": {func(*middleware.Config) {}, 2 * time.Minute},
		"a bucket": {func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{bucket} }, 123 * time.Minute},
		"a larger tier": {func(cfg *middleware.Config) {
			small := bucket
			small.Burst = 2
			cfg.Limits, cfg.Tiers = []middleware.Limit{small}, map[string][]middleware.Limit{"big": {bucket}}
		}, 123 * time.Minute},
		"a counter": {func(cfg *middleware.Config) {
			cfg.Exact = counting(memory.New(0, cfg.Now))
		}, 2 * time.Minute},
		"a counter, a second": {func(cfg *middleware.Config) {
			cfg.Exact = counting(memory.New(0, cfg.Now))
			cfg.Limits[0].Window = time.Second
		}, 50 * time.Second},
		"a sale": {func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{} }, time.Hour},
		"a sale, a day": {func(cfg *middleware.Config) {
			cfg.Challenge, cfg.Limits[0].Window = &middleware.Challenge{}, 24*time.Hour
		}, 48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := new(clock)
			cfg := contact(c)
			tt.change(&cfg)
			m := newLimiter(t, cfg)
			require.Equal(t, tt.want, m.Stats().TokenLife)
			c.Advance(59 * time.Second)
			h := m.Handler(settling(t, false))
			var tok string
			for range 80 { // a full bucket has the longest token
				if resp := send(h, settles(1+int64(len(tok)))); resp.StatusCode == http.StatusOK { // far too little
					tok = tokenIn(resp)
				}
			}
			require.LessOrEqual(t, time.Unix(claimsIn(t, tok).Exp, 0).Sub(c.Now()), m.Stats().TokenLife)
		})
	}
}

// A tally that was sold for longer is honoured for longer, whatever is for sale by now.
func TestTokenLifeOfWhatWasSold(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Window, cfg.Challenge = 24*time.Hour, &middleware.Challenge{PassTime: 24 * time.Hour}
	cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute})
	m := newLimiter(t, cfg)
	require.Equal(t, 48*time.Hour, m.Stats().TokenLife)
	cfg.Limits = cfg.Limits[1:]
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 48*time.Hour, m.Stats().TokenLife)
	cfg.Challenge = nil
	require.NoError(t, m.Reconfigure(cfg))
	require.Equal(t, 2*time.Minute, m.Stats().TokenLife, "no instance reads them")
}

func TestEchoingClientOnThreeInstances(t *testing.T) {
	play(t, []scenario{{"the 6th waits, and passes after its Retry-After", by(contactForm), []step{
		{show: latest, want: 200}, {on: 1, show: latest, want: 200}, {on: 2, show: latest, want: 200}, {show: latest, want: 200}, {on: 1, show: latest, want: 200},
		{on: 2, show: latest, want: 429, see: all{func(s *scene) { s.now.Advance(retryAfter(s, s.last)) }}}, {show: latest, want: 200},
	}}})
}

func TestClientsThatDoNotEcho(t *testing.T) {
	play(t, []scenario{
		{"clients that do not echo have five on each", by(contactForm), []step{{times: 20, passes: 5}, {on: 1, times: 20, passes: 5}, {on: 2, times: 20, passes: 5}}},
		{"nor does the first token for ever bring more", by(contactForm), []step{
			{want: 200, keep: "first"}, {show: "first", times: 60, passes: 4}, {on: 1, show: "first", times: 20, passes: 4}, {on: 2, show: "first", times: 20, passes: 4},
		}},
	})
}

func TestTokens(t *testing.T) {
	alone := func(s *scene) {
		require.Len(s, s.last.Header.Values(middleware.TokenHeader), 1)
		require.NotContains(s, tokenIn(s.last), "upstream")
	}
	four := func(s *scene) { require.Equal(s, 4, s.decision().Tokens) }
	play(t, []scenario{
		{"five good ones cost four MACs, as forged ones do", limiting(), []step{
			{want: 200, keep: "a"}, {show: "a a a a a", want: 200, see: all{four}}, {cookie: "a a a a a", want: 200, see: all{four}},
			{do: func(s *scene) { s.tokens["joined"] = strings.Join(slices.Repeat([]string{s.tokens["a"]}, 5), ",") }, show: "joined", want: 200, see: all{four}},
		}},
		{"a field of a handler's own is no token, and is replaced", limiting().serving(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(middleware.TokenHeader, "upstream.s.own")
		}), []step{{as: method("GET"), want: 200, see: all{alone}}, {want: 200, see: all{alone}}}},
	})
}

// The second middleware of a policy that is in use writes a line, and nothing else does.
func TestSecondMiddlewareIsTold(t *testing.T) {
	type made = func(*testing.T, middleware.Config)
	// each makes a middleware for each change, and has it live.
	each := func(changes ...func(*middleware.Config)) made {
		return func(t *testing.T, cfg middleware.Config) {
			for _, change := range changes {
				one := cfg
				change(&one)
				m := newLimiter(t, one)
				t.Cleanup(func() { runtime.KeepAlive(m) })
			}
		}
	}
	same := func(*middleware.Config) {}
	told := []string{"policy-made-twice"}
	for name, tt := range map[string]struct {
		first, then made
		want        []string
	}{
		"a second":                    {each(same), each(same), told},
		"a second with other secrets": {each(same), each(func(c *middleware.Config) { c.Secrets = [][]byte{secret("b")} }), told},
		"a third too":                 {each(same), each(same, same), told},
		"another policy":              {each(same), each(func(c *middleware.Config) { c.Policy = "signup" }), nil},
		"another logger":              {each(same), each(func(c *middleware.Config) { c.Logger = c.Logger.With("instance", 2) }), nil},
		"one that could not be made": {each(same), func(t *testing.T, cfg middleware.Config) {
			cfg.Limits[0].Quota = 0
			_, err := middleware.New(cfg)
			require.Error(t, err)
		}, nil},
		"in place of one that was dropped": {func(t *testing.T, cfg middleware.Config) {
			newLimiter(t, cfg)
			runtime.GC()
		}, each(same), nil},
		"a new configuration": {each(), func(t *testing.T, cfg middleware.Config) {
			m := newLimiter(t, cfg)
			require.NoError(t, m.Reconfigure(cfg))
			require.NoError(t, m.Validate(cfg))
		}, nil},
		"many at once": {each(), func(_ *testing.T, cfg middleware.Config) {
			var made [16]*middleware.Middleware
			inParallel(len(made), func(i int) { made[i], _ = middleware.New(cfg) })
			runtime.KeepAlive(&made)
		}, told},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			log := logTo(&cfg)
			tt.first(t, cfg)
			tt.then(t, cfg)
			require.Equal(t, tt.want, codesIn(log.Lines()))
		})
	}
}

// To know of a middleware keeps nothing of it.
func TestNothingIsKeptOfAMiddleware(t *testing.T) {
	cfg := contact(new(clock))
	logTo(&cfg)
	m := newLimiter(t, cfg)
	require.True(t, middleware.Remembered(cfg.Policy, cfg.Logger))
	runtime.KeepAlive(m)
	m = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return !middleware.Remembered(cfg.Policy, cfg.Logger)
	}, 2*time.Minute, 10*time.Millisecond)

	cfg.Logger = slog.New(slog.DiscardHandler)
	m = newLimiter(t, cfg)
	require.False(t, middleware.Remembered(cfg.Policy, cfg.Logger), "no line would tell of it")
	runtime.KeepAlive(m)
}

// A straight transport calls a handler, by TLS as far as that can tell.
type straight struct{ http.Handler }

func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context())
	from("203.0.113.1")(r)
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// keepingCookies is an honest browser.
func keepingCookies(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	jar := kit.Must(cookiejar.New(nil))(t)
	return &http.Client{Jar: jar, Transport: straight{h}}
}

// byPath gives each path a quota of its own, except for the endpoints' paths.
func byPath(cfg middleware.Config) middleware.Config {
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		if strings.HasPrefix(r.URL.Path, "/tally/") {
			return id, err
		}
		return id.For(strings.Trim(r.URL.Path, "/")), err
	}
	return cfg
}

// byTurns has a client ask for each of the paths, so often, and returns how often each let it in.
// Each round goes to the next instance.
func byTurns(t *testing.T, c *http.Client, round *int, rounds int, by string, paths ...string) []int {
	t.Helper()
	passed := make([]int, len(paths))
	for range rounds {
		*round++
		for i, path := range paths {
			passed[i] += admittedOver(t, c, "https://example.com"+path, 1, method(by))
		}
	}
	return passed
}

// rounds sends the requests of a round to one of the instances.
func rounds(round *int, instances ...http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instances[*round%len(instances)].ServeHTTP(w, r)
	})
}

// The first row of docs/bounds.md, of each thing: an honest browser gets L, on any number of instances.
func TestBrowserOnThingsByTurns(t *testing.T) {
	eight := []string{"/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"}
	all5 := func(n int) (want []int) {
		for range n {
			want = append(want, 5)
		}
		return want
	}
	for _, kind := range []string{http.MethodGet, http.MethodPost} {
		t.Run(kind, func(t *testing.T) {
			for name, change := range map[string]func(*middleware.Config){
				"as it is": func(*middleware.Config) {},
				"insecure": func(cfg *middleware.Config) { cfg.InsecureCookie = true },
				"embedded": func(cfg *middleware.Config) { cfg.EmbeddedCookie = true },
				"cookies":  func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
				"challenged": func(cfg *middleware.Config) {
					cfg.Challenge = &middleware.Challenge{Mode: middleware.WhenExhausted, Work: 16}
				},
			} {
				t.Run(name, func(t *testing.T) {
					cfg := byPath(contact(new(clock)))
					change(&cfg)
					round := 0
					c := keepingCookies(t, rounds(&round, fleet(t, 2, cfg)...))
					require.Equal(t, all5(8), byTurns(t, c, &round, 12, kind, eight...))
				})
			}
		})
	}
	t.Run("by field", func(t *testing.T) {
		round := 0
		c := &http.Client{Transport: &client.Transport{Base: straight{rounds(&round, fleet(t, 2, byPath(contact(new(clock))))...)}, MaxSolves: -1, MaxWait: -1}}
		require.Equal(t, all5(2), byTurns(t, c, &round, 12, http.MethodPost, "/a", "/b"))
	})
	t.Run("a stack of two policies", func(t *testing.T) {
		now, round := new(clock), 0
		inner, outer := byPath(contact(now)), byPath(contact(now))
		outer.Policy, outer.Limits[0].Quota = "contact-outer", 8
		var instances []http.Handler
		for range 2 {
			instances = append(instances, newLimiter(t, outer).Handler(newLimiter(t, inner).Handler(new(spy))))
		}
		c := keepingCookies(t, rounds(&round, instances...))
		require.Equal(t, all5(8), byTurns(t, c, &round, 12, http.MethodPost, eight...))
	})
	t.Run("Reconfigure and another key", func(t *testing.T) {
		cfg, round := byPath(contact(new(clock))), 0
		var instances []http.Handler
		var limiters []*middleware.Middleware
		for range 2 {
			m := newLimiter(t, cfg)
			limiters, instances = append(limiters, m), append(instances, m.Handler(new(spy)))
		}
		c := keepingCookies(t, rounds(&round, instances...))
		require.Equal(t, []int{3, 3}, byTurns(t, c, &round, 3, http.MethodPost, "/a", "/b"))
		cfg.Secrets = [][]byte{secret("b"), secret("a")}
		for _, m := range limiters {
			require.NoError(t, m.Reconfigure(cfg))
		}
		require.Equal(t, []int{2, 2}, byTurns(t, c, &round, 12, http.MethodPost, "/a", "/b"))
	})
}

// However many things there are, there are eight cookies, which all servers take. What that costs is
// what a client gets that shows no token.
func TestThingsFillNoCookieField(t *testing.T) {
	cfg, round := byPath(contactForm(new(clock))), 0
	var longest, most int
	instances := fleet(t, 2, cfg)
	c := keepingCookies(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		longest, most = max(longest, len(r.Header.Get("Cookie"))), max(most, len(r.Cookies()))
		instances[round%2].ServeHTTP(w, r)
	}))
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprint("/", i))
	}
	for _, n := range byTurns(t, c, &round, 12, http.MethodGet, paths...) {
		require.GreaterOrEqual(t, n, 5)
		require.LessOrEqual(t, n, 10)
	}
	require.Equal(t, 8, most)
	require.Less(t, longest, 4<<10)
}

// What was bought for nothing in particular is good for each thing, and is counted once: its cookie
// belongs to no thing.
func TestBoughtTallyIsOfNoThing(t *testing.T) {
	cfg, round := byPath(challenging(new(clock), middleware.Newcomers)), 0
	one, two := newSite(t, cfg), newSite(t, cfg)
	c := keepingCookies(t, rounds(&round, one, two))
	require.Equal(t, []int{0, 0}, byTurns(t, c, &round, 1, http.MethodPost, "/a", "/b"))
	asked := kit.Must(c.Get("https://example.com/tally/challenge"))(t)
	req := kit.Must(http.NewRequest(http.MethodPost, "https://example.com/tally/redeem", nil))(t)
	proving(solved(t, asked))(req)
	redeemed := kit.Must(c.Do(req))(t)
	require.Equal(t, http.StatusOK, redeemed.StatusCode)
	passed := byTurns(t, c, &round, 12, http.MethodPost, "/a", "/b")
	require.Equal(t, 5, passed[0]+passed[1], "of one pass")
}

// A token is put in place of the one that was issued, in the same cookie.
func TestSettledThingKeepsItsCookie(t *testing.T) {
	cfg := byPath(contact(new(clock)))
	m := newLimiter(t, cfg)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cost := int64(3)
		if r.URL.Path == "/b" {
			cost = 0
		}
		if err := middleware.Settle(r, cost); err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusOK)
	}))
	of := func(path_ string, options ...option) (lines []string, left string) {
		resp := send(h, append(options, path(path_))...)
		return resp.Header["Set-Cookie"], resp.Header.Get("RateLimit")
	}
	lines, _ := of("/a")
	require.Len(t, lines, 1)
	cookie := kit.Must(http.ParseSetCookie(lines[0]))(t)
	require.Regexp(t, `^__Host-tallystick-contact\.for\.[0-7]$`, cookie.Name)
	require.Regexp(t, `^[0-9a-f]{8}~eyJ`, cookie.Value)
	again, left := of("/a", with("Cookie", cookie.Name+"="+cookie.Value))
	require.Len(t, again, 1)
	require.True(t, strings.HasPrefix(again[0], cookie.Name+"="), "a thing keeps its place: %s", again[0])
	require.Equal(t, `"contact";r=0;t=60`, left, "3 twice, of 5")
	lines, _ = of("/b")
	require.Empty(t, lines, "nothing was used")
}

// A cookie of another thing is not believed, whatever it says of itself, and an identity without a
// thing believes no cookie of a thing.
func TestCookieOfAnotherThing(t *testing.T) {
	cfg := byPath(contact(new(clock)))
	cfg.Limits[0].Quota = 50
	decisions := record(&cfg)
	h, _ := limited(t, cfg)
	a, b := cookieIn(send(h, path("/a"))), cookieIn(send(h, path("/b")))
	require.NotEqual(t, a.Name, b.Name)
	markOf := func(c *http.Cookie) string { return c.Value[:9] }
	for name, test := range map[string]struct {
		cookie string
		tokens int
	}{
		"its own":                      {a.Name + "=" + a.Value, 1},
		"in another place":             {b.Name + "=" + a.Value, 1},
		"of another thing":             {a.Name + "=" + b.Value, 0},
		"of another that says ours":    {a.Name + "=" + markOf(a) + b.Value[9:], 0},
		"without the mark":             {a.Name + "=" + a.Value[9:], 0},
		"in a place that there is not": {a.Name[:len(a.Name)-1] + "8=" + a.Value, 1},
		"another there":                {a.Name[:len(a.Name)-1] + "f=" + b.Value, 0},
		"in no place":                  {"__Host-tallystick-contact=" + a.Value, 0},
	} {
		t.Run(name, func(t *testing.T) {
			resp := send(h, path("/a"), with("Cookie", test.cookie))
			require.Equal(t, test.tokens, decisions.Last().Tokens)
			require.Regexp(t, `\.for\.[0-7]$`, cookieIn(resp).Name)
		})
	}
	plain := newSite(t, contact(new(clock)))
	resp := send(plain, with("Cookie", a.Name+"="+a.Value))
	require.Zero(t, plain.Decisions.Last().Tokens)
	require.Equal(t, "__Host-tallystick-contact", cookieIn(resp).Name)
}

// A browser that shows the cookie of a thing keeps cookies: no alarm.
func TestThingsAreNoDroppedCookies(t *testing.T) {
	alarms := func(options ...option) []string {
		cfg := byPath(contact(new(clock)))
		log := logTo(&cfg)
		h, _ := limited(t, cfg)
		send(h, append(options, path("/a"), with("Origin", "http://example.com"))...)
		return log.Lines()
	}
	h, _ := limited(t, byPath(contact(new(clock))))
	c := cookieIn(send(h, path("/a")))
	require.Len(t, alarms(), 1)
	require.Empty(t, alarms(with("Cookie", c.Name+"="+c.Value)))
}

// Answers on their way together take places of their own, as long as there are some.
func TestThingsAtOnce(t *testing.T) {
	h, _ := limited(t, byPath(contact(new(clock))))
	names := map[string]bool{}
	for _, p := range []string{"/a", "/b", "/c"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, p, nil))
		names[cookieIn(w.Result()).Name] = true
	}
	require.Len(t, names, 3)
}

func TestCookieAttributes(t *testing.T) {
	for name, test := range map[string]struct {
		config func(*middleware.Config)
		want   http.Cookie
	}{
		"by default": {func(*middleware.Config) {}, http.Cookie{
			Name: "__Host-tallystick-contact", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}},
		"EmbeddedCookie": {func(cfg *middleware.Config) { cfg.EmbeddedCookie = true }, http.Cookie{
			Name: "__Host-tallystick-contact", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteNoneMode, Partitioned: true,
		}},
		"InsecureCookie": {func(cfg *middleware.Config) { cfg.InsecureCookie = true }, http.Cookie{
			Name: "tallystick-contact", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := contact(now)
			test.config(&cfg)
			now.Advance(45 * time.Second)
			h, _ := limited(t, cfg)
			resp := send(h)
			lines := resp.Header.Values("Set-Cookie")
			require.Len(t, lines, 1)
			require.LessOrEqual(t, len(lines[0]), 1024)
			cookie := kit.Must(http.ParseSetCookie(lines[0]))(t)
			require.NoError(t, cookie.Valid())
			require.Empty(t, cookie.Unparsed)

			test.want.Value, test.want.Raw = tokenIn(resp), cookie.Raw
			test.want.MaxAge = 120 - 45 // the end of the window after this one
			require.Equal(t, test.want, *cookie)

			again := send(h, with("Cookie", cookie.Name+"="+cookie.Value))
			require.Equal(t, `"contact";r=3;t=15`, again.Header.Get("RateLimit"))
			require.Empty(t, tokenIn(again), "it came by cookie and is answered by cookie")
		})
	}
}

// docs/operations.md says what a cookie adds to every request of the site.
func TestCookieWeighsWhatThePageSays(t *testing.T) {
	page := kit.Must(os.ReadFile("../docs/operations.md"))(t)
	said := regexp.MustCompile(`\bcookie\b[^.]* (\d+) bytes[^.]* (\d+) more[^.]* limit\b`).FindSubmatch(page)
	require.NotNil(t, said)
	one := kit.Must(strconv.Atoi(string(said[1])))(t)
	further := kit.Must(strconv.Atoi(string(said[2])))(t)
	for n := range 8 {
		cfg := contact(new(clock))
		for i := range n {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 1000, Window: time.Hour * time.Duration(i+1)})
		}
		h, _ := limited(t, cfg)
		cookies := send(h).Cookies()
		require.Len(t, cookies, 1)
		require.InDelta(t, one+n*further, len(cookies[0].Name+"="+cookies[0].Value), 20, "%d limits", n+1)
	}
}
