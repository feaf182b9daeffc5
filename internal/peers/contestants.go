// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/peers/turns"
	"github.com/tallystick/tallystick/middleware"
)

// A Contestant is one row of what a request costs through ServeHTTP.
type Contestant struct {
	Name string
	Text string // what its client does

	// Beside is which of the peers' rows it is compared with: "" for allowed requests,
	// "-refused" or "-first".
	Beside string

	open func(*opening) (*asker, error)
}

type opening struct {
	// For tests: what is called for every decision of ours, and a clock. nil: nothing, and
	// that of the machine.
	tell func(context.Context, middleware.Decision)
	now  func() time.Time
}

// Player makes c ready to be measured.
func (c Contestant) Player() (turns.Player, error) {
	a, err := c.open(new(opening))
	if err != nil {
		return turns.Player{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	return turns.Player{Name: c.Name, Run: a.run, Before: a.before, After: a.after}, nil
}

// Meets reports whether the limiter meets its clients for the first time.
func (c Contestant) Meets() bool { return c.Beside == asFirst }

// What the peers' rows end in.
const (
	asAllowed = ""
	asRefused = "-refused"
	asFirst   = "-first"
)

// Contestants returns all whose requests are measured beside each other, ours first.
func Contestants() []Contestant {
	post, get := http.MethodPost, http.MethodGet
	all := []Contestant{
		{Ours + "-post", "POST, newest token by header", asAllowed, echo(post, InHeader, 1)},
		{Ours + "-hop", "the same, two instances in turn", asAllowed, echo(post, InHeader, 2)},
		{Ours + "-hop-four", "the same, four instances", asAllowed, echo(post, InHeader, 4)},
		{Ours + "-get", "GET, newest token by header", asAllowed, echo(get, InHeader, 1)},
		{Ours + "-cookie-post", "POST, newest token by cookie", asAllowed, echo(post, InCookie, 1)},
		{Ours + "-cookie-get", "GET, newest token by cookie", asAllowed, echo(get, InCookie, 1)},
		{Ours + "-no-token", "POST, no token", asAllowed, shown(func(*opening) (string, error) { return "", nil })},
		{Ours + "-first", "POST, a new client each time", asFirst, first(ourselves, true)},
		{Ours + "-forged-low", "a forged token that claims less than is known", asAllowed, shown(forgedLow)},
		{Ours + "-forged-high", "a forged token that claims much more", asAllowed, shown(forgedHigh)},
		{Ours + "-forged-long", "a forged token of the most bytes", asAllowed, shown(forgedLong)},
		{Ours + "-foreign", "a good token of another policy", asAllowed, shown(foreignToken)},
		{Ours + "-refused", "POST over its quota, token by header", asRefused, refused(ourselves, true)},
	}
	for _, name := range []string{reference, "throttled"} {
		h := theirs(limiterOf(name))
		all = append(all,
			Contestant{name, "allowed", asAllowed, known(h)},
			Contestant{name + asRefused, "over its quota", asRefused, refused(h, false)},
			Contestant{name + asFirst, "a new client each time", asFirst, first(h, false)},
		)
	}
	return append(all, Contestant{"bare", "no limiter: the handler and the harness", asAllowed, func(*opening) (*asker, error) {
		return newAsker(post, Served()), nil
	}})
}

// reference is the limiter that all are compared with.
const reference = "httprate"

// limiterOf returns the limiter of a name.
func limiterOf(name string) Limiter {
	for _, l := range Limiters() {
		if l.Name == name {
			return l
		}
	}
	panic("no limiter is called " + name)
}

// A builder makes a limiter around the served handler.
type builder func(*opening, Terms) (http.Handler, error)

// ourselves is the builder of our middleware, with room for all clients.
func ourselves(o *opening, t Terms) (http.Handler, error) {
	cfg := config(t)
	cfg.OnDecision, cfg.Now = o.tell, o.now
	cfg.MaxClients = roomy(t.Clients)
	m, err := middleware.New(cfg)
	if err != nil {
		return nil, err
	}
	return m.Handler(Served()), nil
}

// theirs returns the builder of another limiter.
func theirs(l Limiter) builder {
	return func(_ *opening, t Terms) (http.Handler, error) { return l.New(Served(), t) }
}

// echo is a client that shows the newest token, and goes from instance to instance.
func echo(method string, shows Shows, instances int) func(*opening) (*asker, error) {
	return func(o *opening) (*asker, error) {
		var handlers []http.Handler
		for range instances {
			h, err := ourselves(o, Plenty(1))
			if err != nil {
				return nil, err
			}
			handlers = append(handlers, h)
		}
		a := newAsker(method, handlers...)
		a.channel, a.both = shows, true
		a.run(1)
		a.both = false
		a.show(shows, "")
		a.echoes = true
		a.take()
		return a, nil
	}
}

// shown is a client that the memory knows, from a hundred requests, and that shows
// something that is not accepted.
func shown(token func(*opening) (string, error)) func(*opening) (*asker, error) {
	return func(o *opening) (*asker, error) {
		h, err := ourselves(o, Plenty(1))
		if err != nil {
			return nil, err
		}
		a := newAsker(http.MethodPost, h)
		a.both = true
		a.run(100)
		line, err := token(o)
		if err != nil {
			return nil, err
		}
		if line != "" {
			a.show(InHeader, line)
		}
		return a, nil
	}
}

// known is a client of a limiter without tokens.
func known(b builder) func(*opening) (*asker, error) {
	return func(o *opening) (*asker, error) {
		h, err := b(o, Plenty(1))
		if err != nil {
			return nil, err
		}
		return newAsker(http.MethodPost, h), nil
	}
}

// refused is a client that has had its one request, and shows the token of that.
func refused(b builder, tokens bool) func(*opening) (*asker, error) {
	return func(o *opening) (*asker, error) {
		h, err := b(o, One(1))
		if err != nil {
			return nil, err
		}
		a := newAsker(http.MethodPost, h)
		a.run(1)
		if tokens {
			a.show(InHeader, "")
			a.take()
		}
		a.want = http.StatusTooManyRequests
		return a, nil
	}
}

// newcomers is how many new clients an instance gets before another takes its place.
const newcomers = 30_000

// first is a new client for each request.
func first(b builder, tokens bool) func(*opening) (*asker, error) {
	return func(o *opening) (*asker, error) {
		population, err := NewPopulation(newcomers)
		if err != nil {
			return nil, err
		}
		a := newAsker(http.MethodPost, nil)
		a.population, a.next = population, population.size // the first instance is made when it is needed
		a.renew = func() (http.Handler, error) { return b(o, Plenty(newcomers)) }
		a.both = tokens
		return a, nil
	}
}

// before gives a new instance to new clients, where those of the last one run out.
func (a *asker) before(n int) error {
	if a.renew == nil || a.next+n <= a.population.size {
		return nil
	}
	h, err := a.renew()
	a.handlers[0], a.next = h, 0
	return err
}
