// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// Programs read it from where they keep their secrets: 32 bytes of crypto/rand,
// the same on every instance. Tests may have a fixed one.
var exampleSecret = []byte("an example is no place for secrets")

// noon makes the examples say the same whenever they run. Programs leave
// Config.Now alone.
func noon() time.Time { return time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC) }

// post sends a request to h as a server would that got it from addr.
func post(h http.Handler, addr string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/contact", strings.NewReader("message=hello"))
	r.RemoteAddr = addr + ":50000"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

var contactHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "thank you\n")
})

// The whole common case: five messages a minute and fifty a day for each
// address. Without a store, and on any number of instances.
func Example() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
		Secrets: [][]byte{exampleSecret},
		Now:     noon, // for the example's sake
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /contact", limit.Handler(contactHandler))

	for range 5 {
		post(mux, "198.51.100.7")
	}
	resp := post(mux, "198.51.100.7")
	fmt.Println(resp.Status)
	fmt.Println(resp.Header.Get("RateLimit-Policy"))
	fmt.Println(resp.Header.Get("RateLimit"))
	fmt.Println(post(mux, "203.0.113.9").Status, "for another client")

	// Output:
	// 429 Too Many Requests
	// "contact";q=5;w=60, "contact-24h";q=50;w=86400
	// "contact";r=0;t=72, "contact-24h";r=45
	// 200 OK for another client
}

// Behind a reverse proxy every connection comes from the proxy. Name its
// networks: what they, and only they, write into X-Forwarded-For is believed.
func ExampleForwardedFor() {
	identity, err := middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Policy:   "contact",
		Limits:   []middleware.Limit{{Quota: 1, Window: time.Minute}},
		Secrets:  [][]byte{exampleSecret},
		Identity: identity,
		Now:      noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	h := limit.Handler(contactHandler)

	fmt.Println(post(h, "10.0.0.1", "X-Forwarded-For", "198.51.100.7").StatusCode)
	fmt.Println(post(h, "10.0.0.1", "X-Forwarded-For", "203.0.113.9").StatusCode, "another client")
	fmt.Println(post(h, "10.0.0.1", "X-Forwarded-For", "1.2.3.4, 203.0.113.9").StatusCode, "a client that wrote an address before its own")
	fmt.Println(post(h, "203.0.113.9", "X-Forwarded-For", "1.2.3.4").StatusCode, "and comes without the proxy")

	// Output:
	// 200
	// 200 another client
	// 429 a client that wrote an address before its own
	// 429 and comes without the proxy
}

// Customers are limited by their key, with the quota of their plan; other clients by address. The
// program validates the key, because an identity that a client can invent is no identity.
func ExampleValidatedKey() {
	type customer struct{ id, plan string }
	customers := map[string]customer{"s3cr3t": {"customer-17", "pro"}}

	byKey := func(r *http.Request) (middleware.Identity, error) {
		key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return middleware.Identity{}, nil // no key: go by address
		}
		c, ok := customers[key] // in a program: a lookup of the key's hash
		if !ok {
			return middleware.Identity{}, &middleware.Denial{Status: http.StatusUnauthorized}
		}
		id := middleware.APIKey(c.id)
		id.Tier = c.plan
		return id, nil
	}
	limit, err := middleware.New(middleware.Config{
		Policy:   "api",
		Limits:   []middleware.Limit{{Quota: 10, Window: time.Minute}},
		Tiers:    map[string][]middleware.Limit{"pro": {{Quota: 600, Window: time.Minute}}},
		Secrets:  [][]byte{exampleSecret},
		Identity: middleware.ValidatedKey(byKey, middleware.PeerAddress),
		Now:      noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	h := limit.Handler(contactHandler)

	fmt.Println(post(h, "198.51.100.7").Header.Get("RateLimit-Policy"))
	fmt.Println(post(h, "198.51.100.7", "Authorization", "Bearer s3cr3t").Header.Get("RateLimit-Policy"))
	fmt.Println(post(h, "198.51.100.7", "Authorization", "Bearer guess").Status)

	// Output:
	// "api";q=10;w=60
	// "api";q=600;w=60
	// 401 Unauthorized
}

// Policies are stacked by wrapping twice: here a generous one for the whole site
// and a strict one for a form. The response carries a line for each. What the inner one
// refuses comes back outside; docs/api.md says when it does not.
func ExampleMiddleware_Handler_stacked() {
	policy := func(name string, quota int64) *middleware.Middleware {
		m, err := middleware.New(middleware.Config{
			Policy:  name,
			Limits:  []middleware.Limit{{Quota: quota, Window: time.Minute}},
			Secrets: [][]byte{exampleSecret}, // the same: keys are derived for each policy
			Now:     noon,
		})
		if err != nil {
			log.Fatal(err)
		}
		return m
	}
	mux := http.NewServeMux()
	mux.Handle("POST /contact", policy("contact", 5).Handler(contactHandler))
	site := policy("site", 100).Handler(mux)

	resp := post(site, "198.51.100.7")
	for _, line := range resp.Header.Values("RateLimit") {
		fmt.Println(line)
	}
	fmt.Println(len(resp.Header.Values(middleware.TokenHeader)), "tokens")

	// Output:
	// "site";r=99;t=120
	// "contact";r=4;t=120
	// 2 tokens
}

// A form that proves work needs two tags and the endpoints; the files never change
// under one name, so browsers keep them.
func ExampleMiddleware_ScriptURL() {
	limit, err := middleware.New(middleware.Config{
		Policy:    "signup",
		Limits:    []middleware.Limit{{Quota: 3, Window: 10 * time.Minute}},
		Secrets:   [][]byte{exampleSecret},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/signup/"},
	})
	if err != nil {
		log.Fatal(err)
	}
	page := template.Must(template.New("").Parse(`<link rel="stylesheet" href="{{.StyleURL}}">
<script type="module" src="{{.ScriptURL}}"></script>
<form method="post" action="/signup">
	<input name="email" type="email">
	<tally-check endpoint="/tally/signup/"></tally-check>
	<button>Sign up</button>
</form>`))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /signup", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		_ = page.Execute(w, limit)
	})
	mux.Handle("POST /signup", limit.Handler(http.NotFoundHandler()))
	mux.Handle("/tally/signup/", limit.Endpoints())

	for _, url := range []string{"/signup", limit.ScriptURL(), limit.StyleURL()} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Cache-Control"))
	}

	// Output:
	// 200 ""
	// 200 "public, max-age=31536000, immutable"
	// 200 "public, max-age=31536000, immutable"
}

// Scripts of other origins see the fields of the limiter only if the CORS
// middleware, outside of it, says so.
func ExampleCORSExposeHeaders() {
	fmt.Println("Access-Control-Allow-Headers:", strings.Join(middleware.CORSAllowHeaders(), ", "))
	fmt.Println("Access-Control-Expose-Headers:", strings.Join(middleware.CORSExposeHeaders(), ", "))

	// Output:
	// Access-Control-Allow-Headers: Tallystick-Token, Tallystick-Proof
	// Access-Control-Expose-Headers: Tallystick-Token, Tallystick-Challenge, RateLimit, RateLimit-Policy, Retry-After, Tallystick-Degraded
}

// A new policy can be tried on real traffic before it refuses any request.
func ExampleConfig_shadow() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 2, Window: time.Minute}},
		Secrets: [][]byte{exampleSecret},
		Shadow:  true,
		OnDecision: func(_ context.Context, d middleware.Decision) {
			if d.Allowed && !d.Admitted {
				fmt.Println("would have been refused:", d.Reason, d.Status)
			}
		},
		Now: noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	h := limit.Handler(contactHandler)
	for range 3 {
		fmt.Println(post(h, "198.51.100.7").Status)
	}

	// Output:
	// 200 OK
	// 200 OK
	// would have been refused: over-limit 429
	// 200 OK
}

// Handlers can see what was decided about their request.
func ExampleFromContext() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{exampleSecret},
		Now:     noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	h := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := middleware.FromContext(r.Context()); ok {
			fmt.Fprintf(w, "%d messages left\n", d.Limits()[0].Remaining)
		}
	}))
	body, err := io.ReadAll(post(h, "198.51.100.7").Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(body))

	// Output:
	// 4 messages left
}

// Ten wrong passwords an hour for each address: a log-in that succeeds answers 303 and is free.
// The other limit bounds all attempts.
func ExampleByOutcome() {
	limit, err := middleware.New(middleware.Config{
		Policy: "login",
		Limits: []middleware.Limit{
			{Name: "wrong", Quota: 2, Window: time.Hour},
			{Name: "all", Quota: 100, Window: time.Hour},
		},
		ByOutcome: &middleware.ByOutcome{Limits: []string{"wrong"}, Free: []int{http.StatusSeeOther}},
		Secrets:   [][]byte{exampleSecret},
		Now:       noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	login := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusSeeOther)
	}))
	for _, password := range []string{"right", "right", "right", "wrong", "wrong", "wrong"} {
		fmt.Println(post(login, "198.51.100.7", "X-Password", password).StatusCode)
	}

	// Output:
	// 303
	// 303
	// 303
	// 401
	// 401
	// 429
}

// A customer has limits of its own, from the program's database.
func ExampleLimitsFor() {
	agreed := map[string]int64{"customer-17": 5000}
	limit, err := middleware.New(middleware.Config{
		Policy:  "api",
		Limits:  []middleware.Limit{{Quota: 100, Window: time.Hour}},
		Secrets: [][]byte{exampleSecret},
		Identity: func(r *http.Request) (middleware.Identity, error) {
			return middleware.Principal(r.Header.Get("X-User")), nil
		},
		LimitsFor: &middleware.LimitsFor{Func: func(_ context.Context, id middleware.Identity) ([]middleware.Limit, error) {
			if quota, ok := agreed[id.Name()]; ok {
				return []middleware.Limit{{Quota: quota, Window: time.Hour}}, nil
			}
			return nil, nil // the limits of its tier, or those above
		}},
		Now: noon,
	})
	if err != nil {
		log.Fatal(err)
	}
	api := limit.Handler(contactHandler)
	fmt.Println(post(api, "198.51.100.7", "X-User", "customer-17").Header.Get("RateLimit"))
	fmt.Println(post(api, "198.51.100.7", "X-User", "customer-18").Header.Get("RateLimit"))

	// Output:
	// "api";r=4999;t=7200
	// "api";r=99;t=7200
}

// What clients get at most of a form on ten instances.
func ExampleBoundsOf() {
	bounds, err := middleware.BoundsOf(middleware.Config{
		Policy:    "contact",
		Limits:    []middleware.Limit{{Quota: 5, Window: time.Hour}, {Quota: 20, Window: 24 * time.Hour}},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers},
		Instances: 10,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bounds)
	// Output:
	// contact, N = 10                                      5 in 1 h        20 in 24 h
	// echoes its newest token                                     5                 5
	// drops its tokens, or sends requests at once                 0                 0
	// the same, and waits in the waiting room                    10                40
	// works for 1 s of a core                                14,200            14,200
	// works for 1 min of a core                             229,550           597,550
	// works for 1 h of a core                               417,700           785,700
	// holds a whole IPv6 /48, and works for 1 s              14,200            14,200
	// a client that works for 1 s of a core gets 14,200 where 5 in 1 h is meant, with N = 10: use Exact, Peers, or a larger Challenge.Work
}
