// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
)

// A request is a row: a kind of request through ServeHTTP.
type request struct {
	name, text string
	beside     string    // the ending of the rows of others with which it is compared
	builders   []builder // make the instances, which are asked in turn
	method     string
	field      string                // shows the client's newest tokens; "" for no tokens
	lines      func(*opening) string // shown in place of the newest tokens
	with       func(*asker)          // changes the asker before it asks
}

// The endings of the rows of others.
const (
	asAllowed = ""
	asRefused = "-refused"
	asFirst   = "-first" // meets the client for the first time
	asMany    = "-many"  // meets many clients in turn
)

// others are the limiters of others that run in this process; keepers are all limiters that keep state in it.
var (
	others  = []string{reference, "throttled", "ulule", "go-limiter"}
	keepers = append([]string{ourName, lowest}, others...)
)

// requests are all rows, ours first.
var requests = func() []request {
	const post, get = http.MethodPost, http.MethodGet
	by := func(all ...builder) []builder { return all }
	us, floor := by(ours()), by(newFloor)
	day := func(c *middleware.Config) {
		c.Limits = append(c.Limits, middleware.Limit{Quota: c.Limits[0].Quota, Window: 24 * time.Hour})
	}
	key := func(c *middleware.Config) {
		c.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("key"), nil }
	}
	tenant := func(c *middleware.Config) {
		half := []middleware.Limit{{Quota: c.Limits[0].Quota / 2, Window: c.Limits[0].Window}}
		c.LimitsFor = &middleware.LimitsFor{Func: func(context.Context, middleware.Identity) ([]middleware.Limit, error) { return half, nil }}
	}
	ipv6 := func(a *asker) { a.request.RemoteAddr = "[2001:db8:1:2::3]:40000" }
	var hundred []builder
	for i := range 100 {
		hundred = append(hundred, ours(named(i), func(c *middleware.Config) { c.MaxClients = 1024 })) // or they would be most of the heap
	}
	all := []request{
		{ourName + "-post", "POST, newest token by header", asAllowed, us, post, byHeader, nil, nil},
		{ourName + "-hop", "the same, two instances in turn", asAllowed, slices.Repeat(us, 2), post, byHeader, nil, nil},
		{ourName + "-hop-four", "the same, four instances", asAllowed, slices.Repeat(us, 4), post, byHeader, nil, nil},
		{ourName + "-get", "GET, newest token by header", asAllowed, us, get, byHeader, nil, nil},
		{ourName + "-cookie-post", "POST, newest token by cookie", asAllowed, us, post, byCookie, nil, nil},
		{ourName + "-cookie-get", "GET, newest token by cookie", asAllowed, us, get, byCookie, nil, nil},
		{ourName + "-no-token", "POST, no token", asAllowed, us, post, "", nil, nil},
		{ourName + asFirst, "POST, a new client each time", asFirst, us, post, byHeader, nil, nil},
		{ourName + asMany, "POST, newest token, 50,000 clients in turn", asMany, us, post, byHeader, nil, nil},
		{ourName + "-forged-low", "a forged token that claims less than is known", asAllowed, us, post, byHeader, forgedLow, nil},
		{ourName + "-forged-high", "a forged token that claims much more", asAllowed, us, post, byHeader, forgedHigh, nil},
		{ourName + "-forged-long", "a forged token of the most bytes", asAllowed, us, post, byHeader, forgedLong, nil},
		{ourName + "-forged-four", "four of them, as many as are looked at", asAllowed, us, post, byHeader, issued(policy, 1, func(tok string) string { return strings.Repeat(","+lengthen(tok), 4)[1:] }), nil},
		{ourName + "-foreign", "a good token of another policy", asAllowed, us, post, byHeader, issued("another", 1, strings.Clone), nil},
		{ourName + "-forged-thousand", "a thousand forged tokens", asAllowed, us, post, byHeader, issued(policy, 1, func(tok string) string { return strings.Repeat(lengthen(tok)+",", 1000) }), nil},
		{ourName + "-huge", "600 KB in place of a token", asAllowed, us, post, byHeader, said("", "A", huge), nil},
		{ourName + "-huge-list", "600 KB of commas", asAllowed, us, post, byHeader, said("", "A,", huge/2), nil},
		{ourName + "-huge-lines", "600 KB on 150 lines", asAllowed, us, post, byHeader, said("", strings.Repeat("A,", 2<<10)+"\n", huge>>12), nil},
		{ourName + "-forged-cookie", "a forged token by cookie", asAllowed, us, post, byCookie, issued(policy, 1, func(tok string) string { return cookieName + "=" + forge(tok) }), nil},
		{ourName + "-huge-cookie", "600 KB in place of a cookie", asAllowed, us, post, byCookie, said(cookieName+"=", "A", huge), nil},
		{ourName + "-many-cookies", "4,096 cookies of others", asAllowed, us, post, byCookie, said("", "a=b;", 4<<10), nil},
		{ourName + "-huge-cookies", "600 KB of them", asAllowed, us, post, byCookie, said("", "a=b;", huge/4), nil},
		{ourName + "-refused", "POST over its quota, token by header", asRefused, us, post, byHeader, nil, nil},
		{ourName + "-refused-garbage", "the same, a forged token", asRefused, us, post, byHeader, forgedLow, nil},
		{ourName + "-two-limits", "POST, two limits", asAllowed, by(ours(day)), post, byHeader, nil, nil},
		{ourName + "-ipv6", "POST, an address of IPv6", asAllowed, us, post, byHeader, nil, ipv6},
		{ourName + "-key", "POST, an API key", asAllowed, by(ours(key)), post, byHeader, nil, nil},
		{ourName + "-tenant", "the same, limits of its own by LimitsFor", asAllowed, by(ours(key, tenant)), post, byHeader, nil, nil},
		{ourName + "-stack-two", "POST, two policies around one handler", asAllowed, by(stack(2)), post, byHeader, nil, nil},
		{ourName + "-stack-four", "POST, four of them", asAllowed, by(stack(4)), post, byHeader, nil, nil},
		{ourName + "-hundred", "POST, a hundred policies, each a route, in turn", asAllowed, hundred, post, byHeader, nil, apart},
		{lowest, "the least that does the same: POST, newest token by header", asAllowed, floor, post, byHeader, nil, nil},
		{lowest + "-hop", "the same, two instances in turn", asAllowed, slices.Repeat(floor, 2), post, byHeader, nil, nil},
		{lowest + asRefused, "over its quota", asRefused, floor, post, byHeader, nil, nil},
		{lowest + asFirst, "a new client each time", asFirst, floor, post, byHeader, nil, nil},
		{lowest + asMany, "50,000 clients in turn", asMany, floor, post, byHeader, nil, nil},
	}
	for _, name := range others {
		b := by(limiters[name])
		all = append(all,
			request{name, "allowed", asAllowed, b, post, "", nil, nil},
			request{name + asRefused, "over its quota", asRefused, b, post, "", nil, nil},
			request{name + asFirst, "a new client each time", asFirst, b, post, "", nil, nil},
			request{name + asMany, "50,000 clients in turn", asMany, b, post, "", nil, nil},
		)
	}
	return append(all, request{bare, "no limiter: the handler and the harness", asAllowed, by(limiters[bare]), post, "", nil, nil})
}()

func names() (all []string) {
	for _, r := range requests {
		all = append(all, r.name)
	}
	return all
}

// requestOf returns the request with a name, if it exists.
func requestOf(name string) request {
	if i := slices.IndexFunc(requests, func(r request) bool { return r.name == name }); i >= 0 {
		return requests[i]
	}
	return request{}
}

// newcomers is the number of new clients that an instance meets before the next one takes its place; many is the number of
// clients that ask in turn, and that fill a limiter whose heap is measured.
const newcomers, many = 30_000, 50_000

// apart gives each instance a client with its own token.
func apart(a *asker) {
	a.clients = nil
	for _, h := range a.handlers {
		a.clients = append(a.clients, newAsker(http.MethodPost, h).newest(byHeader).clients...)
	}
}

// open returns the asker of a row. Its limiter has met the clients, except in the rows of new clients.
func (r request) open(o *opening) *asker {
	a, t := newAsker(r.method), plenty(1)
	switch r.beside {
	case asRefused:
		t.quota = 2
	case asFirst:
		a.clients, a.turn, a.brings = population(newcomers), newcomers, map[bool]string{true: byBoth}[r.field != ""]
		a.renew = func() http.Handler { return r.builders[0](o, plenty(newcomers)) }
		return a
	case asMany:
		t, a.clients = plenty(many), population(many)
	}
	for _, b := range r.builders {
		a.handlers = append(a.handlers, b(o, t))
	}
	if r.with != nil {
		r.with(a)
	} else if r.beside == asMany {
		visit(a.clients, a.handlers[0])
	}
	switch {
	case len(a.clients) > 1:
		a.field, a.brings, a.echoes = r.field, r.field, r.field != ""
	case r.field != "" && r.lines == nil:
		a.newest(r.field)
	default:
		a.run(2)
		if a.brings = map[bool]string{true: byBoth}[a.w.header[byHeader] != nil]; r.lines != nil {
			a.show(r.field, strings.Split(r.lines(o), "\n")...)
		}
	}
	if r.beside == asRefused {
		if a.echoes { // it has asked once
			a.ask(1)
			a.brings, a.echoes = "", false
		} else if a.brings != "" {
			a.brings = byAny
		}
		a.want = http.StatusTooManyRequests
	}
	return a
}

// stack builds n policies around one handler.
func stack(n int) builder {
	return func(o *opening, t terms) http.Handler {
		h := served()
		for i := range n {
			h = newOurs(o, t, named(i)).Handler(h)
		}
		return h
	}
}

// named names one policy of many.
func named(i int) func(*middleware.Config) {
	return func(c *middleware.Config) { c.Policy += "-" + strconv.Itoa(i) }
}

// Tokens that no limiter gave to the client. Half of the quota of plenty is a high claim.
var (
	forgedLow  = issued(policy, 1, forge)
	forgedHigh = issued(policy, 500_000_000, forge)
	forgedLong = issued(policy, 1, lengthen)
)

// huge is a little less than the default limit of net/http for a header.
const huge = 600 << 10

func said(lead, what string, times int) func(*opening) string {
	return func(*opening) string { return lead + strings.Repeat(what, times) }
}

// issued issues a good token of client 0 for a request of a cost, and changes it.
func issued(policy string, cost int64, change func(string) string) func(*opening) string {
	return func(o *opening) string {
		a := newAsker(http.MethodPost, ours(func(c *middleware.Config) {
			c.Policy, c.OnDecision = policy, nil
			c.Cost = func(*http.Request) int64 { return cost }
		})(o, plenty(1)))
		a.brings = byBoth
		a.ask(1)
		return change(a.w.header.Get(byHeader))
	}
}

// forge returns a token with another signature.
func forge(tok string) string {
	other := "A"
	if tok[len(tok)-2] == 'A' {
		other = "B"
	}
	return tok[:len(tok)-2] + other + tok[len(tok)-1:]
}

// lengthen returns a forged token of the greatest length. It keeps the beginning that all tokens of a key share, without which
// no MAC is computed.
func lengthen(tok string) string {
	head, signature := tok[:64], tok[strings.LastIndexByte(tok, '.'):]
	return head + strings.Repeat("A", token.MaxLen-len(head)-len(signature)) + signature
}

// measureRequests measures requests on one processor. New clients and many clients are measured apart, because the maps that
// they fill would make each garbage collection more expensive for the other rows.
func measureRequests(ctx context.Context, s *settings, o *opening, all samples, long time.Duration) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, part := range []struct {
		name  string
		meets []string
		long  time.Duration
	}{{"requests", []string{asAllowed, asRefused}, long * 3 / 4}, {"many clients", []string{asFirst, asMany}, long / 4}} {
		var rows []row
		for _, r := range requests {
			if slices.Contains(part.meets, r.beside) && s.wants(r.name) {
				rows = append(rows, row{r.name, r.open(o).slice(max(1, 1500/s.part))})
			}
		}
		// The collector runs as often as in a program whose heap is one limiter of ours, with a memory of 7 MiB, although all
		// rows of this process together hold more.
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		debug.SetGCPercent(max(1, int((8<<20)*100/m.HeapAlloc)))
		s.play(ctx, part.name, all, rows, part.long)
	}
}

// measureMemory measures the heap of a new limiter, and the bytes for each client that it has met.
func measureMemory(ctx context.Context, s *settings, o *opening, all samples, long time.Duration) {
	clients, rows := population(many/s.part), []row(nil)
	for _, name := range keepers {
		rows = append(rows, row{name, func(add func(string, float64)) {
			empty := heap()
			h := limiters[name](o, plenty(len(clients)))
			fresh := heap()
			visit(clients, h)
			for i := range clients {
				clients[i].lines[0] = ""
			}
			add("new", fresh-empty)
			add("client", (heap()-fresh)/float64(len(clients)))
			runtime.KeepAlive(h)
		}})
	}
	s.play(ctx, "memory", all, rows, long)
}

// heap returns the bytes of the heap that are in use. The collector runs three times, because pools
// release their contents only at the second.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
