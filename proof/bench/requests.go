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
	open       func(*opening) *asker
}

// What the others' rows end in.
const (
	asAllowed = ""
	asRefused = "-refused"
	asFirst   = "-first" // meets the client for the first time
	asMany    = "-many"  // meets many clients in turn
)

// others are the limiters of others in this process.
var others = []string{reference, "throttled", "ulule", "go-limiter"}

// requests are all rows, ours first.
func requests() []request {
	post, get := http.MethodPost, http.MethodGet
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
		{ourName + "-no-token", "POST, no token", asAllowed, shown(us, nil)},
		{ourName + asFirst, "POST, a new client each time", asFirst, first(us, true)},
		{ourName + asMany, "POST, newest token, 50,000 clients in turn", asMany, inTurn(us, true)},
		{ourName + "-forged-low", "a forged token that claims less than is known", asAllowed, shown(us, forgedLow)},
		{ourName + "-forged-high", "a forged token that claims much more", asAllowed, shown(us, forgedHigh)},
		{ourName + "-forged-long", "a forged token of the most bytes", asAllowed, shown(us, forgedLong)},
		{ourName + "-forged-four", "four of them, as many as are looked at", asAllowed, shown(us, forgedFour)},
		{ourName + "-foreign", "a good token of another policy", asAllowed, shown(us, foreign)},
		{ourName + "-forged-thousand", "a thousand forged tokens", asAllowed, shown(us, forgedMany)},
		{ourName + "-huge", "600 KB in place of a token", asAllowed, shown(us, said(strings.Repeat("A", huge)))},
		{ourName + "-huge-list", "600 KB of commas", asAllowed, shown(us, said(strings.Repeat("A,", huge/2)))},
		{ourName + "-huge-lines", "600 KB on 150 lines", asAllowed, shown(us, said(strings.Repeat(strings.Repeat("A,", 2<<10)+"\n", huge>>12)))},
		{ourName + "-forged-cookie", "a forged token by cookie", asAllowed, shown(us, forgedCookie, byCookie)},
		{ourName + "-huge-cookie", "600 KB in place of a cookie", asAllowed, shown(us, said(cookieName+"="+strings.Repeat("A", huge)), byCookie)},
		{ourName + "-many-cookies", "4,096 cookies of others", asAllowed, shown(us, said(strings.Repeat("a=b;", 4<<10)), byCookie)},
		{ourName + "-huge-cookies", "600 KB of them", asAllowed, shown(us, said(strings.Repeat("a=b;", huge/4)), byCookie)},
		{ourName + "-refused", "POST over its quota, token by header", asRefused, refused(us, newest)},
		{ourName + "-refused-garbage", "the same, a forged token", asRefused, refused(us, forgedLow)},
		{ourName + "-two-limits", "POST, two limits", asAllowed, echo(post, byHeader, ours(day))},
		{ourName + "-ipv6", "POST, an address of IPv6", asAllowed, func(o *opening) *asker {
			a := echo(post, byHeader, us)(o)
			a.request.RemoteAddr = "[2001:db8:1:2::3]:40000"
			return a.newestOf(byHeader)
		}},
		{ourName + "-key", "POST, an API key", asAllowed, echo(post, byHeader, ours(key))},
		{ourName + "-tenant", "the same, limits of its own by LimitsFor", asAllowed, echo(post, byHeader, ours(key, tenant))},
		{ourName + "-stack-two", "POST, two policies around one handler", asAllowed, echo(post, byHeader, stack(2))},
		{ourName + "-stack-four", "POST, four of them", asAllowed, echo(post, byHeader, stack(4))},
		{ourName + "-hundred", "POST, a hundred policies, each a route, in turn", asAllowed, hundred},
		{lowest, "the least that does the same: POST, newest token by header", asAllowed, echo(post, byHeader, newFloor)},
		{lowest + "-hop", "the same, two instances in turn", asAllowed, echo(post, byHeader, newFloor, newFloor)},
		{lowest + asRefused, "over its quota", asRefused, refused(newFloor, newest)},
		{lowest + asFirst, "a new client each time", asFirst, first(newFloor, true)},
		{lowest + asMany, "50,000 clients in turn", asMany, inTurn(newFloor, true)},
	}
	for _, name := range others {
		b := limiters[name]
		all = append(all,
			request{name, "allowed", asAllowed, shown(b, nil)},
			request{name + asRefused, "over its quota", asRefused, refused(b, nil)},
			request{name + asFirst, "a new client each time", asFirst, first(b, false)},
			request{name + asMany, "50,000 clients in turn", asMany, inTurn(b, false)},
		)
	}
	return append(all, request{"bare", "no limiter: the handler and the harness", asAllowed, shown(limiters["bare"], nil)})
}

// echo is a client that shows the newest tokens, and goes from instance to instance.
func echo(method, shows string, builders ...builder) func(*opening) *asker {
	return func(o *opening) *asker {
		a := newAsker(method)
		for _, b := range builders {
			a.handlers = append(a.handlers, b(o, plenty(1)))
		}
		return a.newestOf(shows)
	}
}

// newestOf has a client ask once, and show the newest tokens from then on.
func (a *asker) newestOf(shows string) *asker {
	a.both, a.echoes, a.channel = true, false, shows
	delete(a.request.Header, shows)
	a.lines, a.turn = nil, 0
	a.run(1)
	check(a.after(1))
	a.both, a.echoes, a.turn = false, true, 0
	a.show(shows, make([]string, len(a.w.header[byHeader])))
	a.take()
	return a
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
	var lines [][]string
	small := func(c *middleware.Config) { c.MaxClients = 1024 } // or they are most of the heap of all
	for i := range 100 {
		one := echo(http.MethodPost, byHeader, ours(named(i), small))(o)
		a.handlers, lines = append(a.handlers, one.handlers...), append(lines, one.lines...)
	}
	a.echoes, a.channel = true, byHeader
	a.show(byHeader, lines...)
	return a
}

// shown is a client that the limiter knows, from a hundred requests, and that shows nothing, or lines
// that are not accepted, by the header of tokens or another field.
func shown(b builder, shows func(*opening) string, field ...string) func(*opening) *asker {
	return func(o *opening) *asker {
		a := newAsker(http.MethodPost, b(o, plenty(1)))
		a.run(100)
		a.both = len(a.w.header[byHeader]) > 0
		if shows != nil {
			a.show(append(field, byHeader)[0], strings.Split(shows(o), "\n"))
		}
		return a
	}
}

// refused is a client that has had its two requests, and shows a token if it has one.
func refused(b builder, shows func(*opening) string) func(*opening) *asker {
	return func(o *opening) *asker {
		a := newAsker(http.MethodPost, b(o, terms{2, time.Hour, 1}))
		for range 2 {
			a.run(1)
			if shows == nil {
				continue
			}
			line := shows(o)
			if a.either = line != ""; line == "" {
				line = a.w.header.Get(byHeader)
			}
			a.show(byHeader, []string{line})
		}
		a.want = http.StatusTooManyRequests
		return a
	}
}

// newest stands for the token that the client has been given last.
func newest(*opening) string { return "" }

// newcomers is how many new clients an instance gets before another takes its place.
const newcomers = 30_000

// first is a new client for each request.
func first(b builder, tokens bool) func(*opening) *asker {
	return func(o *opening) *asker {
		a := newAsker(http.MethodPost)
		a.population, a.next, a.both = newPopulation(newcomers), newcomers, tokens
		a.renew = func() http.Handler { return b(o, plenty(newcomers)) }
		return a
	}
}

// inTurn are many clients, each of which shows its newest token.
func inTurn(b builder, tokens bool) func(*opening) *asker {
	return func(o *opening) *asker {
		c, h := newPopulation(many), b(o, plenty(many))
		visit(c, h)
		a := newAsker(http.MethodPost, h)
		if a.population = c; tokens {
			a.show(byHeader, nil)
			a.echoes, a.channel = true, byHeader
		}
		return a
	}
}

// What a client shows that is none of the tokens that it has been given. Half of a plenty is much.
var (
	forgedLow  = issued(policy, 1, forge)
	forgedHigh = issued(policy, 500_000_000, forge)
	forgedLong = issued(policy, 1, lengthen)
	forgedFour = issued(policy, 1, func(tok string) string { return strings.Repeat(","+lengthen(tok), 4)[1:] })
	forgedMany = issued(policy, 1, func(tok string) string { return strings.Repeat(lengthen(tok)+",", 1000) })
	foreign    = issued("another", 1, strings.Clone) // under the same secret

	forgedCookie = issued(policy, 1, func(tok string) string { return cookieName + "=" + forge(tok) })
)

// huge is the default limit of net/http for a header, less some room.
const huge = 600 << 10

func said(lines string) func(*opening) string { return func(*opening) string { return lines } }

// issued issues a good token of client 0 that says that it has used so much, and changes it.
func issued(policy string, cost int64, change func(string) string) func(*opening) string {
	return func(o *opening) string {
		a := newAsker(http.MethodPost, ours(func(c *middleware.Config) {
			c.Policy, c.OnDecision = policy, nil
			c.Cost = func(*http.Request) int64 { return cost }
		})(o, plenty(1)))
		a.both = true
		a.run(1)
		check(a.after(1))
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
func measureRequests(ctx context.Context, s *settings, o *opening, long time.Duration) samples {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	all := make(samples)
	for _, part := range []struct {
		name  string
		meets []string
		long  time.Duration
	}{{"requests", []string{asAllowed, asRefused}, long * 3 / 4}, {"many clients", []string{asFirst, asMany}, long / 4}} {
		var rows []row
		for _, r := range requests() {
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
		all.join(s.play(ctx, part.name, rows, part.long))
	}
	return all
}
