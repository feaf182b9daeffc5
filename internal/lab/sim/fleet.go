// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/internal/attackers"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// opening is when every simulation begins: a boundary of every window that divides a day.
var opening = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Seed is that of the printed tables.
const Seed = 1

// Options are what all tables have in common.
type Options struct {
	// Seed is where chance begins.
	Seed uint64

	// Instances returns what Config.Instances says where n serve: nil is n, and a mistaken
	// operator is one whose number differs. With 1 a bought tally is whole on all of them.
	Instances func(n int) int64
}

// expected is what Config.Instances says where n serve.
func (o *Options) expected(n int) int64 {
	if o.Instances == nil {
		return int64(n)
	}
	return o.Instances(n)
}

// expecting has Config.Instances say so many, however many serve.
func (o Options) expecting(instances int64) Options {
	o.Instances = func(int) int64 { return instances }
	return o
}

// random returns chance for one row: rows do not hang together, and can be made in any order.
func (o *Options) random(row string) *rand.Rand {
	second := uint64(14695981039346656037) // FNV-1a
	for i := range len(row) {
		second = (second ^ uint64(row[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(o.Seed, second))
}

// unit is W of the simulation: the price of a first tally, in hashes. All prices are whole
// multiples of four, which is what a puzzle can ask for, and a proof takes microseconds.
const unit = 32

// crowd is the default of Challenge.Crowd.
const crowd = 8

type site struct {
	limits  []middleware.Limit
	sells   bool // there is a challenge
	mode    middleware.Mode
	room    bool // the waiting room is open
	bulk    bool // a request may stand for many
	clients int  // of the memory; 0: 4,096
	exact   bool // a counter counts, and n share its quota in an outage
	ceiling bool // each instance admits one part of the quota
	planned int  // how many instances the operator expects, if that is not how many there are at first
}

// An instance is one process between two starts: the real middleware and its endpoints.
type instance struct{ http.Handler }

// A fleet is the instances of a site, which share nothing but the secret. It is an attackers.Fleet that does
// everything in order.
type fleet struct {
	site
	o          Options
	r          *rand.Rand
	size       int // at first
	began, now time.Time
	all        []*instance
	next       int // of the balancer

	counter *outage
}

// newFleet starts n instances.
func newFleet(o Options, name string, n int, s site) *fleet {
	f := &fleet{site: s, size: n, o: o, r: o.random(name), began: opening, now: opening}
	for range n {
		f.all = append(f.all, nil)
	}
	if s.exact {
		f.counter = &outage{Counter: exact.NewMemory(16, func() time.Time { return f.now })}
	}
	f.restart()
	return f
}

// restart starts all instances anew. What they knew is gone.
func (f *fleet) restart() {
	for i := range f.all {
		f.all[i] = f.start()
	}
}

// instances is what its Config.Instances says, except on exact routes.
func (f *fleet) instances() int64 { return f.o.expected(cmp.Or(f.planned, f.size)) }

// start starts one more.
func (f *fleet) start() *instance {
	cfg := middleware.Config{
		Policy:         "api",
		Limits:         f.limits,
		Secrets:        [][]byte{[]byte("a secret that the simulation shares with nobody")},
		TokenTransport: middleware.HeaderAndCookie,
		MaxClients:     f.clients,
		Logger:         slog.New(slog.DiscardHandler),
		Now:            func() time.Time { return f.now },
	}
	if cfg.MaxClients == 0 {
		cfg.MaxClients = 4096
	}
	cfg.Instances = f.instances()
	if f.exact {
		cfg.Instances = int64(f.size)
		cfg.Exact = &middleware.Exact{Counter: f.counter, Outage: middleware.FailOpen, Deadline: 10 * time.Second}
	}
	if f.ceiling {
		cfg.UnfairCeiling, cfg.Instances = true, int64(cmp.Or(f.planned, f.size))
	}
	if f.bulk {
		cfg.Cost = costOf
	}
	if f.sells {
		cfg.Challenge = &middleware.Challenge{Mode: f.mode, Work: unit, Path: "/tally/"}
		cfg.Challenge.WaitingRoom.Closed = !f.room && f.mode != middleware.EveryRequest
	}
	m, err := middleware.New(cfg)
	if err != nil {
		panic(err) // the configuration is the simulation's own
	}
	mux := http.NewServeMux()
	mux.Handle("/", m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	mux.Handle("/tally/", m.Endpoints())
	return &instance{mux}
}

// costOf is the Cost of configurations whose clients say it: so many requests at once.
func costOf(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

func (f *fleet) Instances() int { return len(f.all) }

func (f *fleet) Fail(err error) { panic(err) }

func (f *fleet) Together(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}

func (f *fleet) Ask(r attackers.Request) attackers.Answer {
	header := r.Header()
	if r.Cost > 0 {
		header.Set("Cost", strconv.FormatInt(r.Cost, 10))
	}
	if r.To == attackers.Balancer {
		r.To = f.next % len(f.all)
		f.next++
	}
	path := cmp.Or(r.Path, "/")
	w := &writer{header: http.Header{}}
	f.all[r.To].ServeHTTP(w, &http.Request{
		Method: cmp.Or(r.Method, http.MethodPost), URL: &url.URL{Path: path}, RequestURI: path, Header: header, Host: "example.org",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: r.From,
	})
	return attackers.Answer{Status: max(w.status, http.StatusOK), Header: w.header}
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

// attacker returns a client of the fleet that has these addresses.
func (f *fleet) attacker(from ...string) *attackers.Attacker {
	return &attackers.Attacker{Fleet: f, From: from, Random: f.r}
}

// unlessByChance plays, and once more if more was admitted than may be. A process takes the tally of
// another one for its own with a chance of 2⁻²⁴, by secrets that no seed decides: that would be
// one run of all tables in ten with another number. A fault does the same the second time.
func unlessByChance[T any](play func() T, over func(T) bool) T {
	got := play()
	if over(got) {
		return play()
	}
	return got
}

// any returns an instance by chance.
func (f *fleet) any() int { return f.r.IntN(len(f.all)) }

// perMinute is the limit of most tables: so many requests in each minute.
func perMinute(quota int64) []middleware.Limit {
	return []middleware.Limit{{Quota: quota, Window: time.Minute}}
}

// v4 names the n-th IPv4 client, and its connection.
func v4(n int) string { return fmt.Sprintf("198.%d.%d.%d:4711", 18+n>>16, n>>8&255, n&255) }

// v6 names the n-th /64 of a /48, one of each /56 after the other.
func v6(n int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:4711", n&255<<8|n>>8&255) }
