// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// The numbers T1 to T47, here and elsewhere, are from docs/threats.md.
func TestThreatsOfTheToken(t *testing.T) {
	hundred := func() middleware.Config {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits = []middleware.Limit{{Quota: 100, Window: time.Minute}}
		return cfg
	}
	t.Run("T1 drop the token at each request", func(t *testing.T) {
		h, spy := handlers.Limited(t, hundred())
		require.Equal(t, 100, handlers.Admitted(h, 1000))
		require.EqualValues(t, 100, spy.Calls.Load())
	})
	t.Run("T2 replay an old token", func(t *testing.T) {
		h, _ := handlers.Limited(t, hundred())
		first := handlers.Spend(t, h, 1)
		for i := range 99 {
			resp := handlers.Send(h, handlers.Showing(first))
			require.Contains(t, resp.Header.Get("RateLimit"), fmt.Sprintf(`"contact";r=%d;t=`, 98-i))
		}
		require.Zero(t, handlers.Admitted(h, 900, handlers.Showing(first)))
	})
	t.Run("T2 roll back to a token without counts", func(t *testing.T) {
		cfg := hundred()
		cfg.Cost = handlers.CostOf
		h, _ := handlers.Limited(t, cfg)
		peek := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, handlers.Costing(0)))
		require.Empty(t, handlers.TokenIn(peek), "there is nothing to say yet, and so nothing to roll back to")
	})
	t.Run("T3 fork one token to several instances", func(t *testing.T) {
		instances := handlers.Fleet(t, 5, hundred())
		tok := handlers.Spend(t, instances[0], 40)
		total := 40
		for _, h := range instances {
			total += handlers.Admitted(h, 1000, handlers.Showing(tok))
		}
		require.Equal(t, 40+5*60, total, "what the token says is counted everywhere")
		require.LessOrEqual(t, total, 5*100)
	})
	t.Run("T4 honest parallelism", func(t *testing.T) {
		for _, n := range []int64{1, 3} {
			f := fleet.New(int(n), hundred())
			f.AtOnce = true
			a := &players.Attacker{Fleet: f, From: []string{fleet.V4(0)}}
			a.AtOnce(6, func() int { return fleet.Balancer })
			require.LessOrEqual(t, a.Gained().Admitted, truth.Instances{N: n}.AtOnce(100, 6))
			require.GreaterOrEqual(t, a.Gained().Admitted, int64(100))
		}
	})
	t.Run("T6 show a token from another address", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		stolen := handlers.Spend(t, h, 1, handlers.From("198.51.100.1"))
		require.Equal(t, 4, handlers.Admitted(h, 10, handlers.From("198.51.100.1")))

		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.From("203.0.113.9"), handlers.Showing(stolen)).StatusCode)
		require.Zero(t, h.Decisions.Last().Tokens)
		require.Equal(t, 4, handlers.Admitted(h, 10, handlers.From("203.0.113.9"), handlers.Showing(stolen)), "neither more nor less")
	})
	t.Run("T6 share one identity's token among its own requests", func(t *testing.T) {
		instances := handlers.Fleet(t, 2, handlers.Contact(new(handlers.Clock)))
		tok := handlers.Spend(t, instances[0], 5)
		require.Zero(t, handlers.Admitted(instances[1], 5, handlers.Showing(tok)))
	})
}

func TestThreatsOfManyAddresses(t *testing.T) {
	const net56, net48 = 8, 64 // times the quota of one /64
	// through sends n requests each from the addresses that a format names.
	through := func(h http.Handler, addresses, n int, format string) (passed int) {
		for i := range addresses {
			passed += handlers.Admitted(h, n, handlers.From(fmt.Sprintf(format, i)))
		}
		return passed
	}
	t.Run("T7 rotate through one IPv6 /64", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 5, through(h, 1000, 1, "2001:db8:1:2::%x"))
	})
	t.Run("T7 rotate through the /64s of a /56", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 5*net56, through(h, 256, 2, "2001:db8:1:%x::1"))
	})
	t.Run("T7 rotate through the /56s of a /48", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		require.Equal(t, 5*net48, through(h, 256, 4, "2001:db8:1:%x00::1"))
		require.Equal(t, 5, handlers.Admitted(h, 10, handlers.From("2001:db8:2::1")), "the neighbours are not in it")
	})
	t.Run("T7 the first /56 of a /48 is not the /48", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		for i := 1; i <= net56; i++ {
			require.Equal(t, 5, handlers.Admitted(h, 5, handlers.From(fmt.Sprintf("2001:db8:1:%x00::1", i))))
		}
		require.Equal(t, 5, handlers.Admitted(h, 5, handlers.From("2001:db8:1::1")), "40 of 320 in the /48, none in the /56")
	})
	t.Run("T7 a refused network is told when to return", func(t *testing.T) {
		now := new(handlers.Clock)
		h, _ := handlers.Limited(t, handlers.Contact(now))
		through(h, 256, 2, "2001:db8:1:%x::1")
		now.Advance(20 * time.Second)
		resp := handlers.RequireStatus(t, http.StatusTooManyRequests, handlers.Send(h, handlers.From("2001:db8:1:ff::1")))
		require.Equal(t, `"contact";r=0;t=40`, resp.Header.Get("RateLimit"))
		handlers.RequireRetry(t, resp, 40)
	})
	t.Run("T7 the factors are settable", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Net56Factor, cfg.Net48Factor = 1, 2
		h, _ := handlers.Limited(t, cfg)
		require.Equal(t, 5*2, through(h, 1024, 1, "2001:db8:1:%x::1"))
	})
	t.Run("T7 on three instances", func(t *testing.T) {
		instances, next := handlers.Fleet(t, 3, handlers.Contact(new(handlers.Clock))), 0
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next++
			instances[next%3].ServeHTTP(w, r)
		})
		require.LessOrEqual(t, through(h, 256, 7, "2001:db8:1:%x::1"), 3*5*net56)
	})
}

// requireAbsent checks that what is shown changes nothing: the response is the one that a request without token gets.
func requireAbsent(t *testing.T, shown ...string) {
	t.Helper()
	cfg := handlers.Contact(new(handlers.Clock))
	h := handlers.NewSite(t, cfg)
	handlers.Spend(t, h, 2)
	for i, how := range []handlers.Option{handlers.Showing(shown...), handlers.ShowingCookie(shown...)} {
		resp := handlers.RequireStatus(t, http.StatusOK, handlers.Send(h, how))
		require.Equal(t, fmt.Sprintf(`"contact";r=%d;t=60`, 2-i), resp.Header.Get("RateLimit"), shown)
		require.Zero(t, h.Decisions.Last().Tokens, shown)
	}
}

func TestThreatsOfForgery(t *testing.T) {
	tok, header, payload := handlers.Genuine(t, 1)
	require.Equal(t, tok, handlers.Thief(t, header, payload), "the test signs as the server does")
	parts := strings.Split(tok, ".")
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

	t.Run("T9 change any character", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits[0].Quota = 1 << 20
		h := handlers.NewSite(t, cfg)
		for i := range tok {
			for bit := range 8 {
				forged := []byte(tok)
				forged[i] ^= 1 << bit
				handlers.Send(h, handlers.Showing(string(forged)))
				require.Zero(t, h.Decisions.Last().Tokens, "bit %d of byte %d", bit, i)
				require.Error(t, h.Decisions.Last().TokenErr)
			}
		}
		handlers.Send(h, handlers.Showing(tok))
		require.Equal(t, 1, h.Decisions.Last().Tokens)
	})
	t.Run("T10 choose the algorithm", func(t *testing.T) {
		for _, alg := range []string{"none", "None", "NONE", "nOnE", "HS384", "HS512", "hs256", "RS256", "ES256", ""} {
			other := strings.Replace(header, "HS256", alg, 1)
			requireAbsent(t, handlers.Encode(other)+"."+parts[1]+".")
			requireAbsent(t, handlers.Encode(other)+"."+parts[1]+"."+parts[2])
			requireAbsent(t, handlers.Thief(t, other, payload))
		}
	})
	t.Run("T11 inject header parameters", func(t *testing.T) {
		end := len(header) - 1
		for _, extra := range []string{
			`,"jku":"https://attacker.example/keys"`, `,"x5u":"https://attacker.example/c"`, `,"crit":["exp"]`, `,"zip":"DEF"`, ` `,
		} {
			requireAbsent(t, handlers.Thief(t, header[:end]+extra+header[end:], payload))
		}
		for _, kid := range []string{"../..", "%00\r\n", "' OR 1", strings.Repeat("k", 10<<10)} {
			at := strings.Index(header, `"kid":"`) + 7
			requireAbsent(t, handlers.Encode(header[:at]+kid+header[at+4:])+"."+parts[1]+"."+parts[2])
		}
	})
	t.Run("T12 replace golang-jwt's HS256", func(t *testing.T) {
		genuineMethod := jwt.SigningMethodHS256
		jwt.RegisterSigningMethod("HS256", func() jwt.SigningMethod { return jwt.SigningMethodNone })
		defer jwt.RegisterSigningMethod("HS256", func() jwt.SigningMethod { return genuineMethod })
		requireAbsent(t, parts[0]+"."+parts[1]+".")
		requireAbsent(t, parts[0]+"."+parts[1]+"."+strings.Repeat("A", 43))
	})
	t.Run("T13 sign with a stolen key", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		h := handlers.NewSite(t, cfg)
		require.Equal(t, 5, handlers.Admitted(h, 5))
		less := handlers.Thief(t, header, strings.Replace(payload, ",1,0]}", ",0,0]}", 1))
		require.NotEqual(t, tok, less)
		require.Zero(t, handlers.Admitted(h, 10, handlers.Showing(less)), "a token only makes the limiter stricter")
		require.Equal(t, 1, h.Decisions.Last().Tokens, "although it is accepted")
	})
	t.Run("T14 spell a token differently", func(t *testing.T) {
		last := strings.IndexByte(alphabet, tok[len(tok)-1])
		for spare := 1; spare < 4; spare++ {
			requireAbsent(t, tok[:len(tok)-1]+string(alphabet[last^spare]))
		}
		requireAbsent(t, tok+"=")
		requireAbsent(t, tok+"\r\n")
		requireAbsent(t, tok[:len(tok)-9]+"\r\n"+tok[len(tok)-9:])
		requireAbsent(t, tok+".")
		requireAbsent(t, parts[0]+"."+parts[1]+".."+parts[2])
		requireAbsent(t, `"`+tok+`"`)
	})
	t.Run("T15 show a token of another policy or secret", func(t *testing.T) {
		now := new(handlers.Clock)
		kinds := map[string]middleware.Config{}
		for _, policy := range []string{"contact", "newsletter"} {
			for _, name := range []string{"a", "b"} {
				cfg := handlers.Contact(now)
				cfg.Policy, cfg.Secrets = policy, [][]byte{handlers.Secret(name)}
				kinds[policy+" "+name] = cfg
			}
		}
		for issuer, cfg := range kinds {
			h, _ := handlers.Limited(t, cfg)
			tok := handlers.Spend(t, h, 1)
			for verifier, cfg := range kinds {
				h := handlers.NewSite(t, cfg)
				handlers.Send(h, handlers.Showing(tok))
				require.Equal(t, issuer == verifier, h.Decisions.Last().Tokens == 1, "%s shown to %s", issuer, verifier)
			}
		}
	})
}

// TestWhatWasPaidForIsNotLost: a client that proves its work with the request itself gets its token by the response
// to that, and by nothing else. If it is lost the client pays again for each request, at a price that rises.
func TestWhatWasPaidForIsNotLost(t *testing.T) {
	replying := func(change func(w http.ResponseWriter)) func(*testing.T) http.Handler {
		return func(t *testing.T) http.Handler {
			h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.Newcomers))
			h.Spy.Serve = func(w http.ResponseWriter, _ *http.Request) { change(w) }
			return h
		}
	}
	field := func(name, value string) func(*testing.T) http.Handler {
		return replying(func(w http.ResponseWriter) { w.Header().Set(name, value) })
	}
	for name, make := range map[string]func(*testing.T) http.Handler{
		"public":                field("Cache-Control", "public, max-age=60"),
		"public, revalidated":   field("Cache-Control", "public, max-age=0, must-revalidate"),
		"a CDN's own field":     field("CDN-Cache-Control", "max-age=60"),
		"Expires 0":             field("Expires", "0"),
		"Expires in the past":   field("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
		"the handler clears":    replying(func(w http.ResponseWriter) { clear(w.Header()) }),
		"nothing in particular": replying(func(http.ResponseWriter) {}),
		"a proxy and an early hint": func(t *testing.T) http.Handler {
			h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.Newcomers))
			h.Spy.Serve = handlers.ProxyTo(t, handlers.Reader(t, handlers.Hint)).ServeHTTP
			return h
		},
		"a limiter in front of a proxy": func(t *testing.T) http.Handler {
			app := handlers.Challenging(new(handlers.Clock), middleware.Newcomers)
			app.TokenTransport = middleware.HeaderOnly
			edge := handlers.Contact(new(handlers.Clock))
			edge.Policy, edge.Limits[0].Quota = "edge", 1000
			return handlers.NewLimiter(t, edge).Handler(handlers.ProxyTo(t, handlers.Serve(t, handlers.NewSite(t, app)).URL))
		},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+" "+m, func(t *testing.T) {
				server := handlers.Serve(t, make(t))
				c, solves := handlers.Polite(t)
				for i := range 10 {
					resp := handlers.RequireStatus(t, http.StatusOK, handlers.Over(t, c, server.URL, handlers.Method(m)), i)
					if m == http.MethodGet && handlers.TokenIn(resp) != "" { // of others the handler has the last word
						require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
						require.Empty(t, resp.Header.Get("CDN-Cache-Control"), "which would be heard before that")
					}
				}
				require.LessOrEqual(t, solves.Load(), int64(2), "five requests for each proof")
			})
		}
	}
}

// TestThreatsOfPlantedCookies: any sibling domain may set an ordinary cookie whose value
// spells our name, as often as it fits.
func TestThreatsOfPlantedCookies(t *testing.T) {
	for mode, suffix := range map[middleware.Mode]string{middleware.Newcomers: "", middleware.EveryRequest: ".proof.0badcafe"} {
		h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), mode))
		planted := "x=" + strings.Repeat("__Host-tallystick-contact"+suffix, 300)
		var cousins []string // policies whose names begin like this one
		for i := range 40 {
			cousins = append(cousins, "__Host-tallystick-contact"+suffix+"-"+strings.Repeat("a", i)+"=eyJ")
		}
		for _, before := range []string{planted, strings.Join(cousins, "; ")} {
			resp := handlers.RequireStatus(t, http.StatusOK, handlers.Redeemed(h, handlers.Solved(t, handlers.Fetched(h))))
			mine := resp.Cookies()[0]
			require.Equal(t, http.StatusOK, handlers.Send(h, handlers.With("Cookie", before+"; "+mine.Name+"="+mine.Value)).StatusCode)
		}
	}
}

func TestMain(m *testing.M) { handlers.Main(m) }
