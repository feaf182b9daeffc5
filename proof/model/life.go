// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"time"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// A client asks for a tally: its address's, or one that it has bought.
type client struct {
	address string
	holder  token.Holder
	own     token.Own
}

// A life is an instance since its start. Each has a process of its own: the clocks of lives differ, and in one
// process a life whose clock is ahead would take the cells in which another still counts.
type life struct {
	*compiled
	counts    *counts
	at        *process
	elsewhere *process // which issues the challenges that this one has not
	clients   [tallies]client
	challenge [tallies]string // that a bought tally was made from
	proofs    []string        // of EveryRequest: the last is for looking
	issued    [tallies]bool   // challenges of its own
	sold      [tallies]bool
	variant   uint8
	request   *http.Request // that was admitted first, and can be settled
	first     call          // by which
}

// begin starts a life.
func (w *compiled) begin(cs *counts, elsewhere *process) (*life, error) {
	at, err := w.start()
	if err != nil {
		return nil, err
	}
	l := &life{compiled: w, counts: cs, at: at, elsewhere: elsewhere}
	for f := range tallies {
		a := netip.AddrFrom4([4]byte{11, 0, 0, 1})
		if w.networks() { // two addresses of a /56, and one of another in its /48
			a = netip.AddrFrom16([16]byte{0x2a, 6: byte(f / 2), 7: byte(f % 2)})
		}
		l.clients[f].address = netip.AddrPortFrom(a, 1024).String()
		identity := append([]byte{'a'}, a.AsSlice()...)
		l.clients[f].holder = w.codec.Holder(identity[:min(len(identity), 9)])
	}
	for w.Mode == middleware.EveryRequest && len(l.proofs) <= w.Proofs {
		l.proofs = append(l.proofs, solved(l.quote(at, w.readings[0], shared).Text))
	}
	return l, nil
}

// ServeHTTP is what is limited.
func (l *life) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if l.request == nil {
		l.request = r
	}
}

// nothing is the demand of a client that only looks.
var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// send sends a request of the client of a tally.
func (l *life) send(p *process, h http.Handler, clock time.Duration, from int, method, path string, tokens []string, proof string) *httptest.ResponseRecorder {
	p.now = base.Add(clock)
	r := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}, RemoteAddr: l.clients[from].address}
	if len(tokens) > 0 {
		r.Header[middleware.TokenHeader] = tokens
	}
	if proof != "" {
		r.Header.Set(middleware.ProofHeader, proof)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// quote asks for a challenge.
func (l *life) quote(p *process, clock time.Duration, from int) pow.Challenge {
	r := l.send(p, p.Endpoints(), clock, from, http.MethodGet, "/challenge", nil, "")
	c, err := pow.ParseHeader(r.Header().Get(middleware.ChallengeHeader))
	if err != nil {
		panic("model: no challenge: " + err.Error())
	}
	return c
}

func solved(challenge string) string {
	proof, err := pow.Solve(context.Background(), challenge, pow.SolveOptions{Workers: 1})
	if err != nil {
		panic(err)
	}
	return proof
}

// learn makes a tally the one of a challenge: it follows from 6 bytes of the challenge, and from when it was issued.
func (l *life) learn(f int, challenge string) {
	b, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil {
		panic(err)
	}
	l.challenge[f] = challenge
	l.clients[f].own.ID = [6]byte(b[14:20])
	l.clients[f].own.Expires = int64(binary.BigEndian.Uint32(b[4:])) + int64(l.passLife/time.Second)
}

// token is what a client shows that was told p of a tally; "" for nothing.
func (l *life) token(f int, p pair) string {
	t := p.whole()
	c := &l.clients[f]
	switch {
	case !l.isShared(f):
		if l.challenge[f] == "" {
			l.learn(f, l.quote(l.elsewhere, l.readings[0], shared).Text)
		}
		return string(c.holder.AppendOwn(nil, c.own, &t))
	case p == pair{}:
		return ""
	}
	return string(c.holder.Append(nil, &t))
}

// read returns what the token of a response says. It is not ok if there is none.
func (l *life) read(clock time.Duration, from int, r *httptest.ResponseRecorder) (f int, p pair, ok bool) {
	text := r.Header().Get(middleware.TokenHeader)
	if text == "" {
		return from, p, false
	}
	t, err := l.clients[from].holder.Verify(base.Add(clock), text)
	if err != nil {
		panic("model: an instance has signed what it does not accept: " + err.Error())
	}
	copy(p[:], t.Tally[:])
	for f := range l.clients {
		if !t.Own.IsZero() && l.clients[f].own == t.Own {
			return f, p, true
		}
	}
	return from, p, true
}

// look returns all that the instance says at a time.
func (l *life) look(clock time.Duration) (s sight) {
	for _, f := range l.tracked {
		s.tally[f], s.left[f] = l.peek(clock, f)
	}
	for f := range s.price {
		if l.Shop && (f == shared || l.networks()) {
			s.price[f] = int64(l.quote(l.at, clock, f).Work)
		}
	}
	return s
}

// peek sends a request that costs nothing.
func (l *life) peek(clock time.Duration, f int) (says pair, left int64) {
	var (
		tokens []string
		proof  string
	)
	if !l.isShared(f) {
		if l.off(l.variant) {
			return pair{}, 0 // no instance believes in bought tallies
		}
		tokens = []string{l.token(f, pair{})}
	}
	if l.proofs != nil {
		proof = l.proofs[l.Proofs]
	}
	_, says, _ = l.read(clock, f, l.send(l.at, l.at.HandlerCost(0, nothing), clock, f, http.MethodGet, "/", tokens, proof))
	left = math.MaxInt64
	for _, s := range l.at.said.Limits() {
		left = min(left, s.Remaining)
	}
	return says, left
}

// play gives a call to the instance.
func (l *life) play(c *call) (a answer) {
	f := int(c.tally)
	switch c.kind {
	case ask:
		return l.ask(c)
	case issue:
		l.learn(f, l.quote(l.at, c.clock, shared).Text)
		l.issued[f] = true
	case buy:
		from := shared
		offered := l.quote(l.at, c.clock, f)
		if l.networks() {
			from = f
			l.learn(f, offered.Text)
		}
		l.token(f, pair{}) // there is a challenge
		r := l.send(l.at, l.at.Endpoints(), c.clock, from, http.MethodPost, "/redeem", nil, solved(l.challenge[f]))
		a = answer{admitted: r.Code == http.StatusOK, held: l.sold[f] && !l.networks(), tally: c.tally, price: int64(offered.Work)}
		l.sold[f] = l.sold[f] || a.admitted
	case settle:
		l.at.now = base.Add(c.clock)
		if err := middleware.Settle(l.request, l.SettleTo); err != nil {
			a.fault = "what was admitted cannot be settled: " + err.Error()
		}
		l.request, l.first = nil, call{}
	case reconfigure:
		l.variant = 1 - l.variant
		l.at.now = base.Add(c.clock)
		if err := l.at.Reconfigure(l.config(l.at, l.variant)); err != nil {
			panic(err)
		}
	}
	return a
}

// ask sends a request that costs 1.
func (l *life) ask(c *call) (a answer) {
	var (
		tokens      []string
		first, from = -1, shared // of what is shown
		proof       string
	)
	for f := tallies - 1; f >= 0; f-- {
		if c.shown[f] == absent {
			continue
		}
		if text := l.token(f, l.counts.all[c.shown[f]]); text != "" {
			tokens = append(tokens, text)
		}
		if first < 0 || f > shared {
			first = f
		}
	}
	if l.networks() {
		from = first
	}
	if l.proofs != nil {
		proof = l.proofs[c.proof]
	}
	r := l.send(l.at, l.at.Handler(l), c.clock, from, http.MethodGet, "/", tokens, proof)
	if a.admitted = l.at.said.Admitted; a.admitted && l.Settles > 0 && l.first == (call{}) {
		l.first = *c
	}
	f, says, ok := l.read(c.clock, from, r)
	switch a.state, a.carries = says, ok || a.admitted; {
	case a.admitted && first < 0:
		a.fault = "a client is admitted that has proved nothing"
	case ok:
	case a.admitted: // it keeps the token of what it has paid for, and can look at the other
		a.state, _ = l.peek(c.clock, f)
	case first >= 0: // it is told nothing that it did not know, and its refusal is judged by what is counted
		if f = first; l.proofs == nil {
			a.state, _ = l.peek(c.clock, f)
		}
	}
	a.tally, a.count = int8(f), l.counts.of(a.state)
	return a
}

// A process is a real middleware, by a clock that is moved by hand.
type process struct {
	*middleware.Middleware
	now  time.Time
	said middleware.Decision
}

// start starts a process.
func (w *compiled) start() (*process, error) {
	p := new(process)
	m, err := middleware.New(w.config(p, 0))
	p.Middleware = m
	return p, err
}

// config is what a process is told, before it is reconfigured and after.
func (w *compiled) config(p *process, variant uint8) middleware.Config {
	cfg := middleware.Config{
		Policy: name, Limits: w.limitsOf(variant), Secrets: secrets, TokenTransport: middleware.HeaderOnly,
		MaxClients: 1024, // far more than a life has, so that no set of cells is ever full
		Logger:     slog.New(slog.DiscardHandler),
		Now:        func() time.Time { return p.now },
		OnDecision: func(_ context.Context, d middleware.Decision) { p.said = d },
	}
	cfg.Net56Factor, cfg.Net48Factor = w.Networks[0], w.Networks[1]
	if w.sells() && !w.off(variant) {
		cfg.Challenge = &middleware.Challenge{Mode: w.Mode, Work: price, Crowd: 1, SalesPerHour: leak, PassTime: w.Memory, Path: "/"}
		if w.Mode == middleware.EveryRequest {
			cfg.Challenge.Work, cfg.Challenge.NonceOnly = 0, true
		}
	}
	return cfg
}

// A call is a request to an instance, at a time of its clock.
type call struct {
	clock time.Duration
	kind  kind
	shown [tallies]count // of ask
	tally int8           // of buy and issue
	proof int8           // of ask, in EveryRequest
}

type kind uint8

const (
	ask         kind = iota // a request
	issue                   // for a challenge
	buy                     // a proof of it; of Networks, of a fresh one
	settle                  // what was admitted first turns out to cost something else
	reconfigure             // from one configuration to the other, or back

	// What reaches no instance, or is not played.
	tick // the time of the world goes on
	restart
	step // the clock of an instance does
	send
	receive
)

// shows returns of how many tallies something is shown.
func (c *call) shows() (n int) {
	for _, t := range c.shown {
		if t != absent {
			n++
		}
	}
	return n
}

type answer struct {
	admitted bool // of buy: granted
	held     bool // of buy: the instance has sold it before
	next     memory
	carries  bool // there is a token in it, which the client did not have
	tally    int8 // whose
	state    pair
	count    count // the same
	price    int64 // of buy, before it
	fault    string
}

// A sight is all that an instance says at one time, to a client that looks and charges nothing.
type sight struct {
	tally [tallies]pair
	left  [tallies]int64 // for a client that shows nothing
	price [tallies]int64 // to each address, in a Shop
	spent [tallies]bool  // proofs
}
