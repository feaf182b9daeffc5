// SPDX-License-Identifier: Apache-2.0

package middlewaretest_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

// secret is as good as random to all that is tested.
var secret = sha256.Sum256([]byte("a secret of tests"))

// newApp is the program under test, which takes its clock as an argument.
func newApp(now func() time.Time) http.Handler {
	limit, err := middleware.New(middleware.Config{
		Policy:         "contact",
		Limits:         []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:        [][]byte{secret[:]},
		RefusalHandler: http.HandlerFunc(sorry),
		Now:            now,
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /contact", limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "Thank you.") })))
	return mux
}

// sorry is the refusal page of the program.
func sorry(w http.ResponseWriter, r *http.Request) {
	decision, _ := middleware.FromContext(r.Context())
	w.WriteHeader(decision.Status)
	fmt.Fprintf(w, "That was a lot. Please come back in %s seconds.", w.Header().Get("Retry-After"))
}

// t stands for the testing.T of a test.
var t testing.TB = new(testing.T)

// The refusal page of a program, and what comes after it.
func ExampleSpend() {
	clock := middlewaretest.NewClock()
	app := newApp(clock.Now)

	refusal := middlewaretest.Spend(t, app, httptest.NewRequest("POST", "/contact", nil))
	page, _ := io.ReadAll(refusal.Body)
	fmt.Println(refusal.StatusCode, string(page[:15]))

	clock.Wait(t, refusal)
	ada := middlewaretest.Browser(app, "")
	resp, err := ada.PostForm("https://example.com/contact", url.Values{"name": {"Ada"}})
	fmt.Println(resp.StatusCode, err)
	// Output:
	// 429 That was a lot.
	// 200 <nil>
}

// A client that comes from another instance, where it has sent four of five.
func ExampleTokenAt() {
	clock := middlewaretest.NewClock()
	cfg := middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{secret[:]},
		Now:     clock.Now,
	}
	id := middleware.Address(netip.MustParseAddr("203.0.113.1"))
	r := httptest.NewRequest("POST", "/contact", nil)
	r.RemoteAddr = "203.0.113.1:4711"
	r.Header.Set(middleware.TokenHeader, middlewaretest.TokenAt(t, cfg, id, 4))

	app := newApp(clock.Now)
	for range 2 {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "contact";r=0;t=72
	// 429 "contact";r=0;t=72
}

// A form that wants work first, as a browser sends it.
func ExampleBuy() {
	limit, err := middleware.New(middlewaretest.Quick(middleware.Config{
		Policy:    "signup",
		Limits:    []middleware.Limit{{Quota: 3, Window: 10 * time.Minute}},
		Secrets:   [][]byte{secret[:]},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/signup/"},
	}, middlewaretest.NewClock()))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /signup", limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "Welcome.") })))
	mux.Handle("/tally/signup/", limit.Endpoints())

	ada := middlewaretest.Browser(mux, "203.0.113.1")
	send := func() {
		resp, err := ada.PostForm("https://example.com/signup", url.Values{"name": {"Ada"}})
		fmt.Println(resp.StatusCode, err)
	}
	send()
	fmt.Println(middlewaretest.Buy(t, ada, "https://example.com/tally/signup/"))
	send()
	// Output:
	// 403 <nil>
	// true
	// 200 <nil>
}
