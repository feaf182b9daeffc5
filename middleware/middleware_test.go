// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

const planted = "planted" // by what is around

// playHostile plays scenarios inside of middleware that plants and edits fields, by a method whose responses are guarded
// and by one whose are not, and checks what holds for every response.
func playHostile(t *testing.T, scenarios []scenario) {
	for _, s := range scenarios {
		for _, m := range []string{http.MethodPost, http.MethodGet} {
			t.Run(s.name+"/"+m, func(t *testing.T) {
				requests, admitted := 0, 0
				in := &scene{T: t, around: handlers.Hostile, common: method(m)}
				in.each = func(s *scene, is step) {
					requests++
					for name := range is.fields {
						require.LessOrEqual(t, len(s.last.Header.Values(name)), 1, name)
					}
					handlers.RequireRetry(t, s.last, is.retry)
					require.Contains(t, s.last.Header.Values("Set-Cookie"), "session=1")
					require.Contains(t, s.last.Header.Values("Vary"), "Origin")
					stored := "private, max-age=600" // as it was before
					if s.last.StatusCode != http.StatusOK {
						stored = "no-store"
						require.Contains(t, s.last.Header.Values("Vary"), "Accept", "beside what others have said")
					}
					require.Equal(t, []string{stored}, s.last.Header.Values("Cache-Control"))
					require.Len(t, s.site.Decisions.All, requests, "OnDecision is called once for each request")
					admitted += boolToInt(s.last.StatusCode == http.StatusOK)
					passed(admitted)(s)
				}
				s.play(in)
			})
		}
	}
}

func limits(all ...middleware.Limit) func(*middleware.Config) {
	return func(cfg *middleware.Config) { cfg.Limits = all }
}

// ok and no are the steps of most of them: what RateLimit says, and the wait.
func ok(rateLimit string) step {
	return step{want: 200, fields: fields{"RateLimit": rateLimit, middleware.TokenHeader: anything}}
}

func no(rateLimit string, retry int) step {
	return step{want: 429, retry: retry, fields: fields{"RateLimit": rateLimit, middleware.TokenHeader: planted}}
}

func (s step) later(d time.Duration) step     { s.after = d; return s }
func (s step) asking(o option) step           { s.as = o; return s }
func (s step) expect(name, value string) step { s.fields[name] = value; return s }

func TestAlgorithms(t *testing.T) {
	playHostile(t, []scenario{
		{"fixed window", limiting(), []step{
			ok(`"contact";r=4;t=60`).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=3;t=60`), ok(`"contact";r=2;t=60`), ok(`"contact";r=1;t=60`),
			ok(`"contact";r=0;t=30`).later(30 * time.Second),
			no(`"contact";r=0;t=30`, 30).expect("RateLimit-Policy", `"contact";q=5;w=60`),
			ok(`"contact";r=4;t=60`).later(30 * time.Second),
		}},
		{"sliding window", limiting(limits(middleware.Limit{Quota: 5, Window: time.Minute})), []step{
			// Five of the window before weigh 5·(60−e)/60: after 12 s, four.
			ok(`"contact";r=4;t=120`), ok(`"contact";r=3;t=90`), ok(`"contact";r=2;t=80`),
			ok(`"contact";r=1;t=75`), ok(`"contact";r=0;t=72`),
			no(`"contact";r=0;t=72`, 72),
			no(`"contact";r=0;t=1`, 1).later(71 * time.Second),
			ok(`"contact";r=0;t=12`).later(time.Second),
		}},
		{"token bucket", limiting(limits(middleware.Limit{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2})), []step{
			ok(`"contact";r=1;t=1`).expect("RateLimit-Policy", `"contact";q=2;w=2`),
			ok(`"contact";r=0;t=1`),
			no(`"contact";r=0;t=1`, 1),
			ok(`"contact";r=0;t=1`).later(time.Second),
		}},
		{"leaky bucket", limiting(limits(middleware.Limit{Algorithm: storeless.LeakyBucket, Quota: 6, Window: time.Minute})), []step{
			ok(`"contact";r=0;t=10`).expect("RateLimit-Policy", `"contact";q=1;w=10`),
			no(`"contact";r=0;t=10`, 10),
			ok(`"contact";r=0;t=10`).later(10 * time.Second),
		}},
		{"several at once, all or nothing", limiting(limits(fixed(2, time.Minute), fixed(3, time.Hour))), []step{
			ok(`"contact";r=1;t=60, "contact-1h";r=2;t=3600`).expect("RateLimit-Policy", `"contact";q=2;w=60, "contact-1h";q=3;w=3600`),
			ok(`"contact";r=0;t=60, "contact-1h";r=1;t=3600`),
			// The hour is not charged by what the minute refuses, and gives no t that lies beyond Retry-After.
			no(`"contact";r=0;t=60, "contact-1h";r=1`, 60),
			ok(`"contact";r=1;t=60, "contact-1h";r=0;t=3540`).later(time.Minute),
			no(`"contact";r=1, "contact-1h";r=0;t=3540`, 3540),
		}},
	})
}

func TestFuzzSeedsAreThere(t *testing.T) {
	for target, n := range map[string]int{"FuzzConfig": 10, "FuzzForwardedFor": 16, "FuzzCarriage": 12, "FuzzAccept": 12, "FuzzKeptForm": 16, "FuzzProofHeader": 16} {
		kit.Seeds(t, n, target)
	}
}

// FuzzCarriage: no header or cookie gets a client more than its quota; none that holds no token of its own gets it
// less; and none makes the limiter allocate in proportion to what it is sent. OWN stands for a token of the client's,
// FORGED and STOLEN for what they say.
func FuzzCarriage(f *testing.F) {
	const quota = 6
	now := new(clock)
	cfg := contact(now)
	cfg.Limits[0].Quota = quota
	issuer := newLimiter(f, cfg).Handler(new(spy))
	tokens := 0
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) { tokens = d.Tokens }
	h := newLimiter(f, cfg).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	f.Fuzz(func(t *testing.T, header, cookie string) {
		now.Advance(2 * cfg.Limits[0].Window) // everything is new
		own := spend(t, issuer, 3, from("203.0.113.1"))
		known := strings.NewReplacer("OWN", own, "FORGED", forgery(own), "STOLEN", spend(t, issuer, 1, from("203.0.113.2")))
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.RemoteAddr = "203.0.113.1:4711"
		r.Header[middleware.TokenHeader] = strings.Split(known.Replace(header), "\n")
		r.Header["Cookie"] = strings.Split(known.Replace(cookie), "\n")

		passed, accepted := 0, 0
		for range quota + 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, w.Code)
			require.LessOrEqual(t, tokens, 4, "more than four are looked at")
			accepted += tokens
			if w.Code == http.StatusOK {
				passed++
			}
		}
		if accepted > 0 {
			require.Equal(t, quota-3, passed)
		} else {
			require.Equal(t, quota, passed, "refused for a token that is none")
		}
		w := &sink{Fields: http.Header{}}
		require.Less(t, allocated(func() { h.ServeHTTP(w, r) }), uint64(64<<10))
	})
}

// FuzzAccept: the negotiation has two outcomes, whatever it is asked, and a bounded cost.
func FuzzAccept(f *testing.F) {
	h, _ := limited(f, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Limits[0].Quota = 1 }))
	admitted(h, 1)
	const problem, page = "application/problem+json", "text/html; charset=utf-8"
	f.Fuzz(func(t *testing.T, accept string) {
		lines := func(accept string) option {
			return func(r *http.Request) { r.Header["Accept"] = strings.Split(accept, "\n") }
		}
		kind := func(accept string) string {
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, lines(accept)))
			return resp.Header.Get("Content-Type")
		}
		got := kind(accept)
		require.Contains(t, []string{problem, page}, got)
		require.Equal(t, got, kind(upper(accept)), "names are case-insensitive")
		asks := strings.Contains(upper(accept), "TEXT/HTML") || strings.Contains(upper(accept), "TEXT/*") || strings.Contains(accept, "*/*")
		require.True(t, asks || got == problem, "HTML is for clients that ask")
		require.Equal(t, problem, kind("application/json\n"+strings.ReplaceAll(accept, "\n", " ")+",application/json"), "JSON at its best is not outdone")
		require.Less(t, handlers.AllocatedBy(h, from("203.0.113.1"), lines(accept)), uint64(16<<10))
	})
}

// upper is strings.ToUpper for the letters of ASCII.
func upper(s string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			return c - 'a' + 'A'
		}
		return c
	}, s)
}

// FuzzConfig gives New anything: it refuses by the names of fields, and by the same words whatever the secrets are;
// or makes a limiter that answers everything with a status of ours, admits the first request unless a proof is
// wanted, and never admits more than the quota. flags are what is yes or no.
func FuzzConfig(f *testing.F) {
	f.Fuzz(func(t *testing.T, policy, name, tier, path string, key []byte, algorithm uint8, quota, window, burst, tierQuota int64, flags uint16, transport, quiet, mode uint8, work, crowd, memory, sales, net56, net48 int64, tallies int, instances, perSecond, atOnce int64) {
		flag := func(n int) bool { return flags>>n&1 == 1 }
		cfg := contact(new(clock))
		cfg.Policy = policy
		cfg.Limits = []middleware.Limit{{Name: name, Algorithm: storeless.Algorithm(algorithm), Quota: quota, Window: time.Duration(window), Burst: burst}}
		if flag(0) {
			larger := cfg.Limits[0]
			larger.Quota = tierQuota
			cfg.Tiers = map[string][]middleware.Limit{tier: {larger}}
		}
		cfg.Secrets = [][]byte{key}
		if flag(1) {
			cfg.Secrets = append(cfg.Secrets, secret("a"))
		}
		cfg.EmbeddedCookie, cfg.InsecureCookie, cfg.InsecureNoMemory, cfg.Shadow = flag(2), flag(3), flag(4), flag(5)
		cfg.TokenTransport, cfg.Quiet, cfg.Fields = middleware.TokenTransport(transport), quiet > 0, middleware.Fields(flags>>8)
		if quiet == 2 {
			cfg.TokenTransport = middleware.MemoryOnly
		}
		cfg.Net56Factor, cfg.Net48Factor = net56, net48
		cfg.Instances = instances
		if cfg.MaxClients = tallies; tallies > 1<<16 && tallies <= 1<<24 {
			cfg.MaxClients = 1 << 16 // permitted, and a GiB
		}
		if flag(6) {
			cfg.Challenge = &middleware.Challenge{Mode: middleware.Mode(mode), Work: work, NonceOnly: flag(7), Crowd: crowd, SalesPerHour: sales, PassTime: time.Duration(memory), Path: path,
				BusyPerSecond: perSecond, BusyAtOnce: atOnce}
		}

		m, err := middleware.New(cfg)
		if err != nil {
			require.Nil(t, m)
			for _, field := range problems(t, err) {
				require.Regexp(t, `^(Policy|TokenTransport|EmbeddedCookie|MaxClients|Net56Factor|Net48Factor|Instances|Fields|Secrets(\[[01]\])?|Limits(\[0\]\.(Name|Algorithm|Quota|Window|Burst))?|(?s:Tiers\[".*"\](\[0\]\.(Name|Algorithm|Quota|Window|Burst))?)|Challenge\.(Mode|Work|NonceOnly|Crowd|SalesPerHour|PassTime|Path|BusyPerSecond|BusyAtOnce|WaitingRoom))$`, field)
			}
			// Of a secret the words depend on its length, and on whether it is
			// all zeros or there twice: never on its bytes.
			if zeros := make([]byte, len(key)); !bytes.Equal(key, zeros) && !bytes.Equal(key, secret("a")) {
				cfg.Secrets[0] = bytes.Repeat([]byte{0x5a}, len(key))
			}
			_, again := middleware.New(cfg)
			require.EqualError(t, again, err.Error())
			return
		}
		h := m.Handler(new(spy))
		most := max(1, cfg.Limits[0].Burst)
		if cfg.Limits[0].Algorithm < middleware.TokenBucket || cfg.Limits[0].Algorithm == middleware.TokenBucket && burst == 0 {
			most = quota
		}
		passed := int64(0)
		for range 6 {
			resp := send(h)
			require.Contains(t, []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests}, resp.StatusCode)
			if resp.StatusCode == http.StatusOK {
				passed++
			}
		}
		switch {
		case cfg.Shadow:
			require.Equal(t, int64(6), passed)
		case cfg.Challenge != nil && cfg.Challenge.Mode >= middleware.Newcomers:
			require.Zero(t, passed, "without a proof")
		case cfg.InsecureNoMemory:
			require.Equal(t, int64(6), passed, "each is new")
		default:
			require.Equal(t, min(6, most), passed)
		}
	})
}
