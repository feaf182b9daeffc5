// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestThreatsOfHeaders(t *testing.T) {
	tok, _, _ := handlers.Genuine(t, 3)
	spent, _, _ := handlers.Genuine(t, 5)

	t.Run("T19 a header of 600 kB", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits[0].Quota = 1000
		h, _ := handlers.Limited(t, cfg)
		without := handlers.AllocatedBy(h)
		for name, huge := range map[string]handlers.Option{
			"one token":        handlers.Showing(strings.Repeat("a", 600<<10)),
			"many tokens":      handlers.Showing(strings.Repeat(tok+",", 600<<10/len(tok))),
			"many lines":       handlers.Showing(strings.Split(strings.Repeat(tok+",", 600<<10/len(tok)), ",")...),
			"dots":             handlers.Showing(strings.Repeat(".", 600<<10)),
			"commas":           handlers.Showing(strings.Repeat(",", 600<<10)),
			"one cookie":       handlers.ShowingCookie(strings.Repeat("a", 600<<10)),
			"many cookies":     handlers.With("Cookie", strings.Repeat("__Host-tallystick-contact="+tok+"; ", 600<<10/len(tok))),
			"many small":       handlers.With("Cookie", strings.Repeat("a=b;", 150<<10)),
			"semicolons":       handlers.With("Cookie", strings.Repeat(";", 600<<10)),
			"an Accept header": handlers.With("Accept", strings.Repeat("A", 600<<10)+";q="+strings.Repeat("9", 1000)),
		} {
			require.LessOrEqual(t, handlers.AllocatedBy(h, huge), without+8<<10, name)
		}
		blocked, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		handlers.Admitted(blocked, 5, handlers.From("192.0.2.1"))
		refused := handlers.AllocatedBy(blocked)
		for _, accept := range []string{
			strings.Repeat("A", 600<<10), "text/html;q=" + strings.Repeat("0", 600<<10), strings.Repeat("TEXT/HTML;Q=0.1,", 40<<10),
		} {
			require.LessOrEqual(t, handlers.AllocatedBy(blocked, handlers.With("Accept", accept)), refused+8<<10)
		}
	})
	t.Run("T20 low and high, the high one counts", func(t *testing.T) {
		low, _, _ := handlers.Genuine(t, 1)
		for _, how := range [][]handlers.Option{
			{handlers.Showing(low, tok)},
			{handlers.Showing(tok, low)},
			{handlers.Showing(low + "," + tok)},
			{handlers.Showing(tok + " , " + low)},
			{handlers.Showing("," + low + ",,garbage," + tok + ",")},
			{handlers.ShowingCookie(low, tok)},
			{handlers.ShowingCookie(tok), handlers.ShowingCookie(low)},
			{handlers.With("Cookie", "a=b; __Host-tallystick-contact="+low+"; __Host-tallystick-contact="+tok+"; c")},
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, `"contact";r=1;t=60`, handlers.Send(h, how...).Header.Get("RateLimit"))
		}
	})
	t.Run("T20 four tokens are looked at", func(t *testing.T) {
		for n, want := range map[int]string{3: `"contact";r=1;t=60`, 4: `"contact";r=4;t=60`} {
			cfg := handlers.Contact(new(handlers.Clock))
			h := handlers.NewSite(t, cfg)
			forged := tok[:len(tok)-1] + map[bool]string{true: "A", false: "B"}[tok[len(tok)-1] != 'A']
			many := append(strings.Split(strings.Repeat(forged+" ", n), " ")[:n], tok)
			require.Equal(t, want, handlers.Send(h, handlers.Showing(strings.Join(many, ","))).Header.Get("RateLimit"), "behind %d forged", n)
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "signature")
		}
	})
	t.Run("T20 foreign tokens are skipped without a MAC", func(t *testing.T) {
		other := handlers.Contact(new(handlers.Clock))
		other.Policy = "newsletter"
		newsletter, _ := handlers.Limited(t, other)
		foreign := handlers.Spend(t, newsletter, 1)
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		many := append(strings.Split(strings.Repeat(foreign+" ", 20), " ")[:20], tok)
		require.Equal(t, `"contact";r=1;t=60`, handlers.Send(h, handlers.Showing(strings.Join(many, ","))).Header.Get("RateLimit"))
	})
	t.Run("T20 a list that is none", func(t *testing.T) {
		many := append(strings.Split(strings.Repeat("garbage ", 31), " ")[:31], tok)
		long := strings.Repeat("A", 8<<10) + "," + tok
		for shown, want := range map[string]string{
			strings.Join(many, ","):              `"contact";r=1;t=60`,
			"garbage," + strings.Join(many, ","): `"contact";r=4;t=60`, // 32 pieces are glanced at
			long:                                 `"contact";r=4;t=60`, // and no line beyond 8 KiB
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, want, handlers.Send(h, handlers.Showing(shown)).Header.Get("RateLimit"))
		}
	})
	t.Run("T20 a cookie bomb", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		bomb := strings.Repeat("a=b; ", 3300) // no more than 16 KiB are searched
		resp := handlers.Send(h, handlers.With("Cookie", bomb+"__Host-tallystick-contact="+tok))
		require.Equal(t, `"contact";r=4;t=60`, resp.Header.Get("RateLimit"), "as if absent")
		require.Equal(t, 4, handlers.Admitted(h, 10, handlers.With("Cookie", bomb)), "which gains nothing")
	})
	t.Run("T20 cookies of other names", func(t *testing.T) {
		for _, name := range []string{
			"tallystick-contact", "__host-tallystick-contact", "__Secure-tallystick-contact",
			"__Host-tallystick-contact2", "__Host-tallystick-contac", "x__Host-tallystick-contact",
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, `"contact";r=4;t=60`, handlers.Send(h, handlers.With("Cookie", name+"="+tok)).Header.Get("RateLimit"), name)
			require.Equal(t, `"contact";r=3;t=60`, handlers.Send(h, handlers.With("Cookie", name+tok)).Header.Get("RateLimit"), name)
		}
	})
	t.Run("T21 a stale header and a fresh cookie", func(t *testing.T) {
		low, _, _ := handlers.Genuine(t, 1)
		for _, how := range [][]handlers.Option{{handlers.Showing(low), handlers.ShowingCookie(tok)}, {handlers.Showing(tok), handlers.ShowingCookie(low)}} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			resp := handlers.Send(h, how...)
			require.Equal(t, `"contact";r=1;t=60`, resp.Header.Get("RateLimit"))
			require.Equal(t, handlers.TokenIn(resp), handlers.CookieIn(resp).Value, "both are brought up to date")
		}
	})
	t.Run("T22 plant a spent token on a victim", func(t *testing.T) {
		for _, how := range []handlers.Option{handlers.Showing(spent), handlers.ShowingCookie(spent), handlers.Showing(spent, spent, spent, spent)} {
			cfg := handlers.Contact(new(handlers.Clock))
			h := handlers.NewSite(t, cfg)
			victim := handlers.From("198.51.100.20")
			require.Equal(t, 5, handlers.Admitted(h, 10, victim, how))
			require.Equal(t, middleware.OverLimit, h.Decisions.Last().Reason)
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "another identity")
		}
	})
	t.Run("T22 the victim's own token counts beside it", func(t *testing.T) {
		victim := handlers.From("198.51.100.20")
		instances := handlers.Fleet(t, 2, handlers.Contact(new(handlers.Clock)))
		own := handlers.Spend(t, instances[0], 2, victim)
		resp := handlers.Send(instances[1], victim, handlers.ShowingCookie(spent, own))
		require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"))
	})
}

// TestCarriage shows on which channels a client is answered, for each setting
// and for each channel on which it showed a token.
func TestCarriage(t *testing.T) {
	tok, _, _ := handlers.Genuine(t, 1)
	shows := map[string][]handlers.Option{
		"nothing": nil,
		"header":  {handlers.Showing(tok)},
		"cookie":  {handlers.ShowingCookie(tok)},
		"both":    {handlers.Showing(tok), handlers.ShowingCookie(tok)},
		"garbage": {handlers.Showing("garbage"), handlers.ShowingCookie(tok)},
		// What a browser says of a form or a link, and of a script's own request.
		"navigation":             {handlers.With("Sec-Fetch-Mode", "navigate")},
		"navigation, a forgery":  {handlers.With("Sec-Fetch-Mode", "navigate"), handlers.ShowingCookie(handlers.Forgery(tok))},
		"navigation, the header": {handlers.With("Sec-Fetch-Mode", "navigate"), handlers.Showing(tok)},
		"fetch":                  {handlers.With("Sec-Fetch-Mode", "cors")},
		"no mode":                {handlers.With("Sec-Fetch-Mode", "navigate, cors")},
		"two modes":              {handlers.With("Sec-Fetch-Mode", "navigate", "Sec-Fetch-Mode", "cors")},
	}
	for _, test := range []struct {
		carriage middleware.TokenTransport
		shown    string
		accepted int
		answered string
	}{
		{middleware.HeaderOrCookie, "nothing", 0, "both"},
		{middleware.HeaderOrCookie, "header", 1, "header"},
		{middleware.HeaderOrCookie, "cookie", 1, "cookie"},
		{middleware.HeaderOrCookie, "both", 2, "both"},
		{middleware.HeaderOrCookie, "garbage", 1, "cookie"},
		{middleware.HeaderOrCookie, "navigation", 0, "cookie"},
		{middleware.HeaderOrCookie, "navigation, a forgery", 0, "cookie"},
		{middleware.HeaderOrCookie, "navigation, the header", 1, "header"},
		{middleware.HeaderOrCookie, "fetch", 0, "both"},
		{middleware.HeaderOrCookie, "no mode", 0, "both"},
		{middleware.HeaderOrCookie, "two modes", 0, "both"},
		{middleware.HeaderOnly, "navigation", 0, "header"},
		{middleware.HeaderOnly, "nothing", 0, "header"},
		{middleware.HeaderOnly, "cookie", 0, "header"},
		{middleware.HeaderOnly, "both", 1, "header"},
		{middleware.CookieOnly, "nothing", 0, "cookie"},
		{middleware.CookieOnly, "header", 0, "cookie"},
		{middleware.CookieOnly, "both", 1, "cookie"},
	} {
		t.Run(fmt.Sprintf("%d/%s", test.carriage, test.shown), func(t *testing.T) {
			cfg := handlers.Contact(new(handlers.Clock))
			cfg.TokenTransport = test.carriage
			h := handlers.NewSite(t, cfg)
			resp := handlers.Send(h, shows[test.shown]...)
			require.Equal(t, test.accepted, h.Decisions.Last().Tokens)
			require.Equal(t, test.answered != "cookie", handlers.TokenIn(resp) != "")
			require.Equal(t, test.answered != "header", handlers.CookieIn(resp) != nil)
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		})
	}
}

// A sharedCache is a caching reverse proxy that stores all that RFC 9111 lets
// it: whatever is not forbidden, or permitted too, at every status, with or without a
// lifetime. As CDNs do, it believes the fields made for it before Cache-Control.
type sharedCache struct {
	proxy *httputil.ReverseProxy
	mu    sync.Mutex
	store map[string]*http.Response
	body  map[string][]byte
}

func newSharedCache(t *testing.T, origin string) *sharedCache {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &sharedCache{store: map[string]*http.Response{}, body: map[string][]byte{}}
	c.proxy = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(kit.Must(url.Parse(origin))(t))
			r.SetXForwarded()
		},
		ModifyResponse: c.keep,
	}
	return c
}

func (c *sharedCache) keep(resp *http.Response) error {
	control := strings.Join(resp.Header.Values("Cache-Control"), ",")
	for name := range resp.Header {
		if strings.HasSuffix(name, "-Cache-Control") || slices.Contains([]string{"Surrogate-Control", "Edge-Control", "X-Accel-Expires"}, name) {
			control = resp.Header.Get(name)
		}
	}
	forbids := strings.Contains(control, "no-store") && !strings.Contains(control, "must-understand") ||
		strings.Contains(strings.ReplaceAll(control, "private=", ""), "private")
	allows := strings.Contains(control, "public") || strings.Contains(control, "s-maxage") // of both, it believes this
	if resp.Request.Method != http.MethodGet || forbids && !allows {
		return nil
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(b))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store[resp.Request.URL.Path], c.body[resp.Request.URL.Path] = resp, b
	return err
}

func (c *sharedCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	resp, body := c.store[r.URL.Path], c.body[r.URL.Path]
	c.mu.Unlock()
	if resp == nil || r.Method != http.MethodGet {
		c.proxy.ServeHTTP(w, r)
		return
	}
	for name, lines := range resp.Header {
		w.Header()[name] = lines
	}
	w.Header().Set("Age", "1")
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
}

// origin has a page for each way in which handlers deal with caches. Those whose
// path begins with /public want to be stored.
func origin(t *testing.T) (mux *http.ServeMux, paths []string) {
	mux = http.NewServeMux()
	page := func(path string, header func(http.Header)) {
		paths = append(paths, path)
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			header(w.Header())
			_, _ = io.WriteString(w, "ok")
		})
	}
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	page("/plain", func(http.Header) {})
	page("/deletes", func(h http.Header) { h.Del("Cache-Control") })
	page("/clears", func(h http.Header) { clear(h) })
	page("/etag", set("ETag", `"1"`))
	page("/no-cache", set("Cache-Control", "no-cache"))
	page("/no-cache/for-a-minute", set("Cache-Control", "max-age=60, no-cache"))
	page("/private", set("Cache-Control", "private, max-age=60"))
	page("/private/some-fields", set("Cache-Control", `private="set-cookie"`))
	page("/public/private-some-fields", set("Cache-Control", `max-age=60, private="set-cookie"`))
	page("/private/twice", func(h http.Header) { h["Cache-Control"] = []string{"private", "private, max-age=60"} })
	page("/private/and-public", set("Cache-Control", "private, public, max-age=60"))
	page("/private/and-for-shared-caches", func(h http.Header) { h["Cache-Control"] = []string{"s-maxage=60", "private"} })
	page("/public/cdn-against-private", func(h http.Header) {
		h.Set("CDN-Cache-Control", "max-age=60")
		h.Set("Cache-Control", "private")
	})
	page("/unstored", set("Cache-Control", "no-store, max-age=0, must-revalidate"))
	page("/unstored/if-not-understood", set("Cache-Control", "no-store, must-understand"))
	page("/stale", set("Cache-Control", "max-age=0, must-revalidate"))
	page("/unknown", set("Cache-Control", "stale-while-revalidate=60"))
	page("/undecided", func(h http.Header) { h["Cache-Control"] = []string{"public", "no-store"} })
	page("/public/said", set("Cache-Control", "Public"))
	page("/public/for-a-minute", set("Cache-Control", "max-age=60"))
	page("/public/shared", set("Cache-Control", `s-maxage="60"`))
	page("/public/added", func(h http.Header) { h.Add("Cache-Control", "max-age=60") })
	page("/public/expires", func(h http.Header) { h.Set("Expires", handlers.Midnight.Add(time.Hour).Format(http.TimeFormat)) })
	page("/public/cdn", set("CDN-Cache-Control", "max-age=60"))
	page("/public/surrogate", set("Surrogate-Control", "max-age=60+30"))
	page("/public/cdn-against-browsers", func(h http.Header) {
		h.Set("CDN-Cache-Control", "max-age=60")
		h.Set("Cache-Control", "no-store")
	})
	page("/public/cloudflare", set("Cloudflare-CDN-Cache-Control", "max-age=60"))
	page("/public/akamai", set("Edge-Control", "cache-maxage=60"))
	page("/public/akamai-targeted", set("Akamai-Cache-Control", "max-age=60"))
	page("/public/fastly", set("Fastly-Cache-Control", "max-age=60"))
	page("/public/litespeed", set("X-LiteSpeed-Cache-Control", "public,max-age=60"))
	page("/public/example", set("Example-Cache-Control", "max-age=60"))
	page("/example", set("Example-Cache-Control", "private"))
	page("/public/nginx", set("X-Accel-Expires", "60"))
	page("/expired", set("Expires", "0"))
	page("/expired/long-ago", set("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"))
	page("/edge", set("Edge-Control", "no-store"))
	page("/public/session", func(h http.Header) {
		h.Set("Cache-Control", "max-age=60")
		h.Add("Set-Cookie", "banner=seen")
	})
	mux.Handle("GET /file/", http.StripPrefix("/file", http.FileServerFS(fstest.MapFS{
		"a": {Data: []byte("ok"), ModTime: handlers.Midnight},
	})))

	upstream := handlers.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
	}))
	mux.Handle("GET /public/proxied", handlers.ProxyTo(t, upstream.URL))
	return mux, append(paths, "/file/a", "/file/missing", "/nothing/here", "/public/proxied")
}

// fromLoopback believes proxies at 127.0.0.1.
var fromLoopback = handlers.MustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("127.0.0.1/32")))

func TestThreatsOfCaches(t *testing.T) {
	cfg := handlers.Contact(new(handlers.Clock))
	cfg.Limits[0].Quota = 1000
	cfg.Identity = fromLoopback
	pages, paths := origin(t)
	behind := &handlers.Spy{Serve: pages.ServeHTTP}
	server := handlers.Serve(t, handlers.NewLimiter(t, cfg).Handler(behind))
	front := handlers.Serve(t, newSharedCache(t, server.URL))

	for _, path := range paths {
		t.Run("T24 a shared cache stores what it may, "+path, func(t *testing.T) {
			alice, bob := handlers.ClientAt(t, "127.0.0.2"), handlers.ClientAt(t, "127.0.0.3") // with no cookie yet: they are answered by field and cookie
			behind.Calls.Store(0)
			hers := handlers.Over(t, alice, front.URL+path, handlers.Method(http.MethodGet))
			his := handlers.Over(t, bob, front.URL+path, handlers.Method(http.MethodGet))
			cached := his.Header.Get("Age") != ""
			require.Equal(t, strings.HasPrefix(path, "/public"), cached, "%v", hers.Header)
			if cached {
				require.EqualValues(t, 1, behind.Calls.Load())
				for _, name := range []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy"} {
					require.Empty(t, his.Header.Values(name))
					require.Empty(t, hers.Header.Values(name))
				}
				require.Nil(t, handlers.CookieIn(his))
				return
			}
			require.NotEmpty(t, handlers.TokenIn(hers))
			require.NotEmpty(t, handlers.TokenIn(his))
			require.NotEqual(t, handlers.TokenIn(hers), handlers.TokenIn(his))
			require.NotEqual(t, handlers.CookieIn(hers).Value, handlers.CookieIn(his).Value)
			own := map[string][]string{ // responses that shared caches do not store
				"/private":       {"private, max-age=60"},
				"/private/twice": {"private", "private, max-age=60"},
				"/unstored":      {"no-store, max-age=0, must-revalidate"},
			}[path]
			if own == nil {
				own = []string{"no-store"}
			}
			require.Equal(t, own, his.Header.Values("Cache-Control"))
		})
	}
	bob := handlers.ClientAt(t, "127.0.0.3")
	t.Run("T24 handlers' own cookies stay", func(t *testing.T) {
		resp := handlers.Over(t, bob, server.URL+"/public/session", handlers.Method(http.MethodGet))
		require.Equal(t, []string{"banner=seen"}, resp.Header.Values("Set-Cookie"))
	})
	t.Run("T24 HEAD is as GET", func(t *testing.T) {
		require.Empty(t, handlers.TokenIn(handlers.Over(t, bob, server.URL+"/public/said", handlers.Method(http.MethodHead))))
		require.NotEmpty(t, handlers.TokenIn(handlers.Over(t, bob, server.URL+"/plain", handlers.Method(http.MethodHead))))
	})
}

func TestThreatsOfCachedRefusals(t *testing.T) {
	for name, by := range map[string]middleware.TokenTransport{"open": 0, "quiet": middleware.MemoryOnly} {
		t.Run("T24 refusals are never stored, "+name, func(t *testing.T) {
			cfg := handlers.Contact(new(handlers.Clock))
			cfg.Identity, cfg.TokenTransport, cfg.Quiet = fromLoopback, by, by == middleware.MemoryOnly
			h, _ := handlers.Limited(t, cfg)
			front := handlers.Serve(t, newSharedCache(t, handlers.Serve(t, handlers.Hostile(h)).URL))
			alice, bob := handlers.ClientAt(t, "127.0.0.2"), handlers.ClientAt(t, "127.0.0.3")
			for range 5 {
				require.Equal(t, http.StatusOK, handlers.Over(t, alice, front.URL).StatusCode)
			}
			require.Equal(t, http.StatusTooManyRequests, handlers.Over(t, alice, front.URL, handlers.Method(http.MethodGet)).StatusCode)
			require.Equal(t, http.StatusOK, handlers.Over(t, bob, front.URL, handlers.Method(http.MethodGet)).StatusCode)
		})
	}
}

// An outer middleware may tell the CDN to store all of a site.
func TestThreatsOfSitesThatAreCached(t *testing.T) {
	for _, field := range []string{"CDN-Cache-Control", "Surrogate-Control", "Cloudflare-CDN-Cache-Control", "Edge-Control", "X-Accel-Expires",
		"Akamai-Cache-Control", "Fastly-Cache-Control", "X-LiteSpeed-Cache-Control", "Example-Cache-Control"} {
		t.Run("T24 refusals and challenges are never stored, "+field, func(t *testing.T) {
			cfg := handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted)
			cfg.Identity = fromLoopback
			site := handlers.NewSite(t, cfg)
			outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(field, "max-age=60")
				site.ServeHTTP(w, r)
			})
			front := handlers.Serve(t, newSharedCache(t, handlers.Serve(t, outer).URL))
			alice, bob := handlers.ClientAt(t, "127.0.0.2"), handlers.ClientAt(t, "127.0.0.3")
			for range 5 {
				require.Equal(t, http.StatusOK, handlers.Over(t, alice, front.URL).StatusCode)
			}
			require.Equal(t, http.StatusTooManyRequests, handlers.Over(t, alice, front.URL, handlers.Method(http.MethodGet)).StatusCode)
			posted := handlers.Over(t, bob, front.URL)
			require.NotEmpty(t, handlers.TokenIn(posted))
			require.Empty(t, posted.Header.Get(field))
			require.Equal(t, http.StatusOK, handlers.Over(t, bob, front.URL, handlers.Method(http.MethodGet)).StatusCode)
			hers := handlers.Over(t, alice, front.URL+cfg.Challenge.Path+"challenge", handlers.Method(http.MethodGet))
			his := handlers.Over(t, bob, front.URL+cfg.Challenge.Path+"challenge", handlers.Method(http.MethodGet))
			require.NotEmpty(t, hers.Header.Get(middleware.ChallengeHeader))
			require.NotEqual(t, hers.Header.Get(middleware.ChallengeHeader), his.Header.Get(middleware.ChallengeHeader))
		})
	}
}

// Every name that ends so is some cache's own (RFC 9213), however it is spelled, and by
// whatever method: caches can be told to store those too.
func TestThreatsOfTargetedCaches(t *testing.T) {
	for _, field := range []string{"CDN-Cache-Control", "Surrogate-Control", "Cloudflare-CDN-Cache-Control", "Netlify-CDN-Cache-Control",
		"Vercel-CDN-Cache-Control", "Akamai-Cache-Control", "Fastly-Cache-Control", "Edge-Cache-Control", "X-LiteSpeed-Cache-Control",
		"Example-Cache-Control", "x-example-cache-control", "EXAMPLE-CACHE-CONTROL", "Edge-Control", "X-Accel-Expires"} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			t.Run("T24 "+field+", "+m, func(t *testing.T) {
				for value, public := range map[string]bool{"max-age=60": true, "no-store": false} {
					if field == "X-Accel-Expires" {
						value = map[bool]string{true: "60", false: "0"}[public]
					}
					h := handlers.NewLimiter(t, handlers.Contact(new(handlers.Clock))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						w.Header()[field] = []string{value}
						_, _ = io.WriteString(w, "ok")
					}))
					resp := handlers.Send(h, handlers.Method(m))
					require.Equal(t, []string{value}, resp.Header[field])
					require.Equal(t, public, handlers.TokenIn(resp) == "")
					require.Equal(t, public, handlers.CookieIn(resp) == nil)
					require.Equal(t, public, resp.Header.Get("RateLimit") == "")
				}
			})
		}
	}
	t.Run("T24 fields of other ends", func(t *testing.T) {
		h := handlers.NewLimiter(t, handlers.Contact(new(handlers.Clock))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"", "l", "Control", "X-Control", "X-DNS-Prefetch-Control", "-Cache-Controls", "Xcache-Control", "X-Expires"} {
				w.Header()[name] = []string{"max-age=60"}
			}
			_, _ = io.WriteString(w, "ok")
		}))
		require.NotEmpty(t, handlers.TokenIn(handlers.Send(h, handlers.Method(http.MethodGet))))
		require.NotEmpty(t, handlers.TokenIn(handlers.Send(h)))
	})
}

func TestThreatsOfCrossSitePages(t *testing.T) {
	h, spy := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
	protected := http.NewCrossOriginProtection().Handler(h)
	server := handlers.Serve(t, protected)
	victim := handlers.ClientAt(t, "127.0.0.2")

	t.Run("T23 a cross-site page burns the victim's quota", func(t *testing.T) {
		for _, evil := range []handlers.Option{
			handlers.With("Sec-Fetch-Site", "cross-site"),
			handlers.With("Origin", "https://evil.example"),
		} {
			for range 10 {
				require.Equal(t, http.StatusForbidden, handlers.Over(t, victim, server.URL, evil).StatusCode)
			}
		}
		require.Zero(t, spy.Calls.Load())
		resp := handlers.Over(t, victim, server.URL, handlers.With("Sec-Fetch-Site", "same-origin"))
		require.Equal(t, `"contact";r=4;t=60`, resp.Header.Get("RateLimit"), "nothing was charged")
	})
	t.Run("T23 the cookie is not sent along", func(t *testing.T) {
		require.Equal(t, http.SameSiteLaxMode, handlers.CookieIn(handlers.Over(t, handlers.ClientAt(t, "127.0.0.3"), server.URL)).SameSite)
	})
}
