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

// A request is one row of what a request costs through ServeHTTP.
type request struct {
	name, text string
	beside     string // what the rows of others end in that it is compared with
	open       opener
}

type opener func(*opening) *asker

// What the others' rows end in.
const (
	asAllowed = ""
	asRefused = "-refused"
	asFirst   = "-first" // meets the client for the first time
	asMany    = "-many"  // meets many clients in turn
)

// others are the limiters of others in this process; keepers are all that keep something in it.
var (
	others  = []string{reference, "throttled", "ulule", "go-limiter"}
	keepers = append([]string{ourName, lowest}, others...)
)

// requests are all rows, ours first.
var requests = func() []request {
	const post, get = http.MethodPost, http.MethodGet
	us := ours()
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
	all := []request{
		{ourName + "-post", "POST, newest token by header", asAllowed, echo(post, byHeader, us)},
		{ourName + "-hop", "the same, two instances in turn", asAllowed, echo(post, byHeader, us, us)},
		{ourName + "-hop-four", "the same, four instances", asAllowed, echo(post, byHeader, us, us, us, us)},
		{ourName + "-get", "GET, newest token by header", asAllowed, echo(get, byHeader, us)},
		{ourName + "-cookie-post", "POST, newest token by cookie", asAllowed, echo(post, byCookie, us)},
		{ourName + "-cookie-get", "GET, newest token by cookie", asAllowed, echo(get, byCookie, us)},
		{ourName + "-no-token", "POST, no token", asAllowed, known(us)},
		{ourName + asFirst, "POST, a new client each time", asFirst, first(us, true)},
		{ourName + asMany, "POST, newest token, 50,000 clients in turn", asMany, inTurn(us, true)},
		{ourName + "-forged-low", "a forged token that claims less than is known", asAllowed, showing(us, byHeader, forgedLow)},
		{ourName + "-forged-high", "a forged token that claims much more", asAllowed, showing(us, byHeader, forgedHigh)},
		{ourName + "-forged-long", "a forged token of the most bytes", asAllowed, showing(us, byHeader, forgedLong)},
		{ourName + "-forged-four", "four of them, as many as are looked at", asAllowed, showing(us, byHeader, issued(policy, 1, func(tok string) string { return strings.Repeat(","+lengthen(tok), 4)[1:] }))},
		{ourName + "-foreign", "a good token of another policy", asAllowed, showing(us, byHeader, issued("another", 1, strings.Clone))},
		{ourName + "-forged-thousand", "a thousand forged tokens", asAllowed, showing(us, byHeader, issued(policy, 1, func(tok string) string { return strings.Repeat(lengthen(tok)+",", 1000) }))},
		{ourName + "-huge", "600 KB in place of a token", asAllowed, showing(us, byHeader, said("", "A", huge))},
		{ourName + "-huge-list", "600 KB of commas", asAllowed, showing(us, byHeader, said("", "A,", huge/2))},
		{ourName + "-huge-lines", "600 KB on 150 lines", asAllowed, showing(us, byHeader, said("", strings.Repeat("A,", 2<<10)+"\n", huge>>12))},
		{ourName + "-forged-cookie", "a forged token by cookie", asAllowed, showing(us, byCookie, issued(policy, 1, func(tok string) string { return cookieName + "=" + forge(tok) }))},
		{ourName + "-huge-cookie", "600 KB in place of a cookie", asAllowed, showing(us, byCookie, said(cookieName+"=", "A", huge))},
		{ourName + "-many-cookies", "4,096 cookies of others", asAllowed, showing(us, byCookie, said("", "a=b;", 4<<10))},
		{ourName + "-huge-cookies", "600 KB of them", asAllowed, showing(us, byCookie, said("", "a=b;", huge/4))},
		{ourName + "-refused", "POST over its quota, token by header", asRefused, over(echo(post, byHeader, few(us)))},
		{ourName + "-refused-garbage", "the same, a forged token", asRefused, over(showing(few(us), byHeader, forgedLow))},
		{ourName + "-two-limits", "POST, two limits", asAllowed, echo(post, byHeader, ours(day))},
		{ourName + "-ipv6", "POST, an address of IPv6", asAllowed, func(o *opening) *asker {
			a := known(us)(o)
			a.request.RemoteAddr = "[2001:db8:1:2::3]:40000"
			return a.newest(byHeader)
		}},
		{ourName + "-key", "POST, an API key", asAllowed, echo(post, byHeader, ours(key))},
		{ourName + "-tenant", "the same, limits of its own by LimitsFor", asAllowed, echo(post, byHeader, ours(key, tenant))},
		{ourName + "-stack-two", "POST, two policies around one handler", asAllowed, echo(post, byHeader, stack(2))},
		{ourName + "-stack-four", "POST, four of them", asAllowed, echo(post, byHeader, stack(4))},
		{ourName + "-hundred", "POST, a hundred policies, each a route, in turn", asAllowed, hundred},
		{lowest, "the least that does the same: POST, newest token by header", asAllowed, echo(post, byHeader, newFloor)},
		{lowest + "-hop", "the same, two instances in turn", asAllowed, echo(post, byHeader, newFloor, newFloor)},
		{lowest + asRefused, "over its quota", asRefused, over(echo(post, byHeader, few(newFloor)))},
		{lowest + asFirst, "a new client each time", asFirst, first(newFloor, true)},
		{lowest + asMany, "50,000 clients in turn", asMany, inTurn(newFloor, true)},
	}
	for _, name := range others {
		b := limiters[name]
		all = append(all,
			request{name, "allowed", asAllowed, known(b)},
			request{name + asRefused, "over its quota", asRefused, over(known(few(b)))},
			request{name + asFirst, "a new client each time", asFirst, first(b, false)},
			request{name + asMany, "50,000 clients in turn", asMany, inTurn(b, false)},
		)
	}
	return append(all, request{"bare", "no limiter: the handler and the harness", asAllowed, known(limiters["bare"])})
}()

func names() (all []string) {
	for _, r := range requests {
		all = append(all, r.name)
	}
	return all
}

// requestOf returns the request of a name, if there is one.
func requestOf(name string) request {
	if i := slices.IndexFunc(requests, func(r request) bool { return r.name == name }); i >= 0 {
		return requests[i]
	}
	return request{}
}

// echo is a client that shows the newest tokens, and goes from instance to instance.
func echo(method, field string, builders ...builder) opener {
	return func(o *opening) *asker {
		a := newAsker(method)
		for _, b := range builders {
			a.handlers = append(a.handlers, b(o, plenty(1)))
		}
		return a.newest(field)
	}
}

// known is a client that the limiter knows, from two requests, and that shows nothing.
func known(b builder) opener {
	return func(o *opening) *asker {
		a := newAsker(http.MethodPost, b(o, plenty(1)))
		a.run(2)
		a.both = len(a.w.header[byHeader]) > 0
		return a
	}
}

// showing is the same client, which shows lines of a field that are not accepted.
func showing(b builder, field string, lines func(*opening) string) opener {
	return func(o *opening) *asker {
		a := known(b)(o)
		a.show(field, strings.Split(lines(o), "\n")...)
		return a
	}
}

// few is a builder of limiters that admit two requests.
func few(b builder) builder {
	return func(o *opening, _ terms) http.Handler { return b(o, terms{2, time.Hour, 1}) }
}

// over is a client that has had its two requests, and shows its newest token if it has one.
func over(open opener) opener {
	return func(o *opening) *asker {
		a := open(o)
		if a.echoes { // it has asked once
			a.ask(1)
		}
		a.want, a.either, a.both, a.echoes, a.channel = http.StatusTooManyRequests, a.both, false, false, ""
		return a
	}
}

// stack is the builder of policies around one handler.
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

// hundred is a client of a hundred policies. It has a token of each.
func hundred(o *opening) *asker {
	a := newAsker(http.MethodPost)
	a.clients, a.echoes, a.field, a.channel = nil, true, byHeader, byHeader
	small := func(c *middleware.Config) { c.MaxClients = 1024 } // or they are most of the heap of all
	for i := range 100 {
		one := echo(http.MethodPost, byHeader, ours(named(i), small))(o)
		a.handlers, a.clients = append(a.handlers, one.handlers...), append(a.clients, one.clients...)
	}
	return a
}

// newcomers is how many new clients an instance gets before another takes its place; many is how many clients fill a limiter
// whose heap is measured, or ask it one after the other.
const newcomers, many = 30_000, 50_000

// first is a new client for each request.
func first(b builder, tokens bool) opener {
	return func(o *opening) *asker {
		a := newAsker(http.MethodPost)
		a.clients, a.turn, a.both = population(newcomers), newcomers, tokens
		a.renew = func() http.Handler { return b(o, plenty(newcomers)) }
		return a
	}
}

// inTurn are many clients, each of which shows its newest token.
func inTurn(b builder, tokens bool) opener {
	return func(o *opening) *asker {
		a := newAsker(http.MethodPost, b(o, plenty(many)))
		a.clients = population(many)
		visit(a.clients, a.handlers[0])
		if tokens {
			a.field, a.echoes, a.channel = byHeader, true, byHeader
		}
		return a
	}
}

// What a client shows that is none of the tokens that it has been given. Half of a plenty is much.
var (
	forgedLow  = issued(policy, 1, forge)
	forgedHigh = issued(policy, 500_000_000, forge)
	forgedLong = issued(policy, 1, lengthen)
)

// huge is the default limit of net/http for a header, less some room.
const huge = 600 << 10

func said(lead, what string, times int) func(*opening) string {
	return func(*opening) string { return lead + strings.Repeat(what, times) }
}

// issued issues a good token of client 0 that says that it has used so much, and changes it.
func issued(policy string, cost int64, change func(string) string) func(*opening) string {
	return func(o *opening) string {
		a := newAsker(http.MethodPost, ours(func(c *middleware.Config) {
			c.Policy, c.OnDecision = policy, nil
			c.Cost = func(*http.Request) int64 { return cost }
		})(o, plenty(1)))
		a.both = true
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

// lengthen returns a forged token of the most bytes: with less of what all tokens of a key begin
// with, no MAC is made.
func lengthen(tok string) string {
	head, signature := tok[:64], tok[strings.LastIndexByte(tok, '.'):]
	return head + strings.Repeat("A", token.MaxLen-len(head)-len(signature)) + signature
}

// measureRequests measures requests on one processor: those of clients that the limiter knows and, apart, those of clients that
// it meets for the first time, or of many, because the maps that they fill would make each collection dearer for all.
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
		// The collector comes as often as in a program in which there is nothing but one limiter of ours, with a memory of
		// 7 MiB, whatever the rows of one process hold together.
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		debug.SetGCPercent(max(1, int((8<<20)*100/m.HeapAlloc)))
		s.play(ctx, part.name, all, rows, part.long)
	}
}

// measureMemory measures the heap of a limiter when it is new, and for each client that it has met.
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
// give up what they hold only at the second.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
