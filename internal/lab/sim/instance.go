// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// opening is when every simulation begins: a boundary of every window that divides a day.
var opening = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// An instance is one process between two starts: the real middleware and its endpoints.
type instance struct{ routes http.Handler }

// newInstance starts a process. The configuration is the simulation's own, so a mistake in
// it is one of the code.
func newInstance(cfg middleware.Config) *instance {
	m, err := middleware.New(cfg)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/tally/", m.Endpoints())
	return &instance{mux}
}

type ask struct {
	addr   string
	tokens []string
	proof  string
	cookie string // all cookies, as a browser sends them; it asks for a page then
	cost   int64  // 0: the Config does not say
}

type told struct {
	status    int
	token     string
	challenge string // the field
	cookies   []string
}

func (t told) passed() bool { return t.status < 400 }

var (
	front     = &url.URL{Path: "/"}
	fetching  = &url.URL{Path: "/tally/challenge"}
	redeeming = &url.URL{Path: "/tally/redeem"}
)

// pages is the Accept of a person's browser.
const pages = "text/html,application/xhtml+xml,*/*;q=0.8"

// send asks for what is behind the limiter.
func (i *instance) send(a ask) told {
	header := http.Header{}
	if a.cost > 0 {
		header.Set("Cost", strconv.FormatInt(a.cost, 10))
	}
	for _, t := range a.tokens {
		if t != "" {
			header.Add(middleware.TokenHeader, t)
		}
	}
	if a.cookie != "" {
		header.Set("Accept", pages)
		header.Set("Cookie", a.cookie)
	}
	return i.serve(http.MethodPost, front, a.addr, a.proof, header)
}

// costOf is the Cost of configurations whose clients say it: so many requests at once.
func costOf(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// work fetches a challenge.
func (i *instance) work(addr string) (c pow.Challenge, ok bool) {
	t := i.serve(http.MethodGet, fetching, addr, "", http.Header{})
	return t.work()
}

// work reads the challenge of an answer.
func (t told) work() (c pow.Challenge, ok bool) {
	if t.challenge == "" {
		return c, false
	}
	c, err := pow.ParseHeader(t.challenge)
	return c, err == nil
}

// redeem returns the first token of the tally that a proof opens, or "".
func (i *instance) redeem(addr, proof string) string {
	t := i.serve(http.MethodPost, redeeming, addr, proof, http.Header{})
	if !t.passed() {
		return ""
	}
	return t.token
}

// bought returns the first token of a tally that is bought now.
func (i *instance) bought(addr string) string {
	c, _ := i.work(addr)
	token := i.redeem(addr, solve(c))
	if token == "" {
		panic("sim: no tally for its price")
	}
	return token
}

// solve works.
func solve(c pow.Challenge) string {
	proof, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: 1, MaxWork: pow.MaxWork})
	if err != nil {
		panic(err)
	}
	return proof
}

func (i *instance) serve(method string, to *url.URL, addr, proof string, header http.Header) told {
	if proof != "" {
		header.Set(middleware.ProofHeader, proof)
	}
	w := &writer{header: http.Header{}}
	i.routes.ServeHTTP(w, &http.Request{
		Method: method, URL: to, RequestURI: to.Path, Header: header, Host: "example.org",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: addr,
	})
	return told{
		status: max(w.status, http.StatusOK), token: w.header.Get(middleware.TokenHeader),
		challenge: w.header.Get(middleware.ChallengeHeader), cookies: w.header["Set-Cookie"],
	}
}

// A writer keeps the fields of an answer.
type writer struct {
	header http.Header
	status int
}

func (w *writer) Header() http.Header { return w.header }
func (w *writer) WriteHeader(code int) {
	if w.status == 0 && code >= 200 {
		w.status = code
	}
}
func (w *writer) Write(b []byte) (int, error)       { w.WriteHeader(http.StatusOK); return len(b), nil }
func (w *writer) WriteString(s string) (int, error) { w.WriteHeader(http.StatusOK); return len(s), nil }

var _ io.StringWriter = (*writer)(nil)

// silent is the log of every instance.
var silent = slog.New(slog.DiscardHandler)
