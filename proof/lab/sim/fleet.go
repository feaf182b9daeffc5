// SPDX-License-Identifier: Apache-2.0

// Package sim plays clients against the code that serves them in production, under a clock
// that is moved by hand: attackers beside the bound that the documentation prints, honest
// clients, and a day of a million clients. It makes the tables of proof/lab/README.md.
//
// What depends on the middleware goes through its ServeHTTP, without sockets, by N instances
// that share nothing but the secret. Where a thousand instances serve a million clients, the
// decision of internal/limiter is called itself. Puzzles are real and tiny: work is told in
// multiples of W, the price of the first tally.
//
// All that chance decides here comes from a seed, so that the same tables are made again.
// What chance decides in the limiter, as which cell of its memory counts a client, does not
// show: where it could, the simulation names the cells itself.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/players"
)

// opening is when every simulation begins: a boundary of every window that divides a day.
var opening = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Seed is that of the printed tables.
const Seed = 1

// Options are what all tables have in common.
type Options struct {
	Seed uint64 // where chance begins
}

// random returns chance for one row: rows do not hang together, and can be made in any order.
func (o *Options) random(row string) *rand.Rand {
	second := fnv.New64a()
	_, _ = io.WriteString(second, row)
	return rand.New(rand.NewPCG(o.Seed, second.Sum64()))
}

const (
	// unit is W of the simulation: the price of a first tally, in hashes. All prices are whole
	// multiples of four, which is what a puzzle can ask for, and a proof takes microseconds.
	unit = 32

	crowd    = 64  // the default of Challenge.Crowd
	attacked = 100 // the limit of most tables: so many requests in each minute
)

func perMinute(quota int64) []middleware.Limit {
	return []middleware.Limit{{Quota: quota, Window: time.Minute}}
}

// A site is what the operator configures; a fleet adds what all have in common.
type site = middleware.Config

func selling(mode middleware.Mode) site {
	c := &middleware.Challenge{Mode: mode, Work: unit, Path: "/tally/"}
	c.NoWaitingRoom = mode != middleware.EveryRequest
	return site{Limits: perMinute(attacked), Challenge: c}
}

// costOf is the Cost of sites where one request may stand for many.
func costOf(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// A moved fleet is the instances of a site, which share nothing but the secret. It is an fleet.Fleet that does
// everything in order.
type moved struct {
	site       site
	r          *rand.Rand
	began, now time.Time
	all        []*instance
	down       bool // the counter is out of order
}

// An instance is one process between two starts: the real middleware and its endpoints.
type instance struct{ http.Handler }

// newFleet starts n instances.
func newFleet(o Options, name string, n int, s site) *moved {
	f := &moved{site: s, r: o.random(name), began: opening, now: opening, all: make([]*instance, n)}
	c := &f.site
	c.Instances = int64(n)
	if s.Exact != nil {
		c.Exact = &middleware.Exact{Counter: counter{memory.New(16, f.clock), f}, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
	}
	c.Policy, c.Secrets = "api", [][]byte{[]byte("a secret that the simulation shares with nobody")}
	c.MaxClients = cmp.Or(s.MaxClients, 4096)
	c.Now, c.Logger = f.clock, slog.New(slog.DiscardHandler)
	f.restart()
	return f
}

func (f *moved) clock() time.Time { return f.now }

// restart starts all instances anew. What they knew is gone.
func (f *moved) restart() {
	for i := range f.all {
		f.all[i] = f.start()
	}
}

// start starts one more.
func (f *moved) start() *instance {
	m, err := middleware.New(f.site)
	if err != nil {
		panic(err) // the configuration is the simulation's own
	}
	mux := http.NewServeMux()
	mux.Handle("/", m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/tally/", m.Endpoints())
	return &instance{mux}
}

// A counter may be out of order.
type counter struct {
	exact.Counter
	f *moved
}

func (c counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if c.f.down {
		return exact.Verdict{}, errors.New("sim: the counter is down")
	}
	return c.Counter.Take(ctx, call)
}

// Instances is how many there are.
func (f *moved) Instances() int { return len(f.all) }

// Fail does not happen: all of it is the simulation's own.
func (f *moved) Fail(err error) { panic(err) }

// Together does all in order.
func (f *moved) Together(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}

// Ask has an instance answer. There is no balancer: everybody chooses.
func (f *moved) Ask(r fleet.Request) fleet.Answer {
	path, header := cmp.Or(r.Path, "/"), r.Header()
	if r.Cost > 0 {
		header.Set("Cost", strconv.FormatInt(r.Cost, 10))
	}
	w := &writer{header: http.Header{}}
	f.all[r.To].ServeHTTP(w, &http.Request{
		Method: cmp.Or(r.Method, http.MethodPost), URL: &url.URL{Path: path}, RequestURI: path, Header: header, Host: "example.org",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: r.From,
	})
	return fleet.Answer{Status: max(w.status, http.StatusOK), Header: w.header}
}

// A writer keeps the fields of an answer.
type writer struct {
	header http.Header
	status int
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(b []byte) (int, error) { w.WriteHeader(http.StatusOK); return len(b), nil }
func (w *writer) WriteHeader(code int) {
	if w.status == 0 && code >= 200 {
		w.status = code
	}
}

type attacker = players.Attacker

// attacker returns a client of the fleet that has these addresses.
func (f *moved) attacker(from ...string) *attacker {
	return &attacker{Fleet: f, From: from, Random: f.r}
}

// any returns an instance by chance.
func (f *moved) any() int { return f.r.IntN(len(f.all)) }

const madeBy = "make bounds"

// table is one of the page of this package.
func table(name string, head ...string) pages.Made {
	return pages.Made{Name: name, Page: "proof/lab/README.md", By: madeBy, Head: head}
}

// v4 names the n-th IPv4 client, and its connection.
func v4(n int) string { return fmt.Sprintf("198.%d.%d.%d:4711", 18+n>>16, n>>8&255, n&255) }

// v6 names the n-th /64 of a /48, one of each /56 after the other.
func v6(n int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:4711", n&255<<8|n>>8&255) }
