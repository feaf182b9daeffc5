// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
	"github.com/tallystick/tallystick/storeless"
)

// shown are the tokens that a client shows: the newest, if it is honest.
func (w *world) shown(c *visitor) []string {
	n := len(c.tokens)
	if n == 0 {
		return nil
	}
	newest, any := c.tokens[n-1], func() string { return c.tokens[w.r.IntN(n)] }
	if w.honest {
		return []string{newest}
	}
	switch w.r.IntN(6) {
	case 0:
		return []string{newest}
	case 1: // replay, roll back
		return []string{any()}
	case 2: // fork
		return []string{any(), any(), newest}
	case 3: // steal
		if other := w.anybody(); len(other.tokens) > 0 {
			return []string{other.tokens[w.r.IntN(len(other.tokens))]}
		}
	case 4:
		if w.sells { // there are more thieves and fewer that forge
			return []string{newest}
		}
		return []string{newest[:len(newest)-4] + "AAAA"}
	}
	return nil // drop
}

// An attempt is one request, and what an oracle knows of it beforehand.
type attempt struct {
	life   *life
	addr   string
	tier   int
	cost   int64
	tokens []string
	inside bool // a policy inside refuses it, if this one does not
	asked  bool // outside of HTTP, by Decide

	work       *work
	reason     middleware.Reason // why the proof is not accepted
	opened     bool              // the proof opens a tally
	candidates []string          // own tallies that may be charged

	resp *http.Response
}

func (w *world) attempt() *attempt {
	c := w.anybody()
	a := &attempt{life: w.anywhere(), addr: c.addr, cost: 1, tokens: w.shown(c), tier: w.r.IntN(12) / 8}
	if !w.sells {
		if w.r.IntN(6) == 0 {
			a.cost = w.r.Int64N(4)
		}
		a.inside, a.asked = w.r.IntN(3) == 0, w.r.IntN(4) == 0 && a.cost > 0
		return a
	}
	w.look(a)
	if w.r.IntN(3) == 0 || w.mode == middleware.EveryRequest && w.r.IntN(3) > 0 {
		if w.r.IntN(8) == 0 {
			c = w.anybody() // a stolen one
		}
		a.work = w.anyProof(c)
	}
	if a.work != nil && w.known() {
		a.reason = w.expected(a.life, a.work, a.addr)
		a.opened = a.reason == "" && w.mode != middleware.EveryRequest
	}
	for _, tok := range a.tokens {
		own := handlers.ClaimsIn(w.t, tok).Fam
		if own != "" && (!w.tariff.BindOwn || w.tallies[own].addr == a.addr) {
			a.candidates = append(a.candidates, own)
		}
	}
	if a.opened {
		a.candidates = []string{a.work.tally()}
	}
	return a
}

// look has the world expect what the instance does now, where that depends on its load.
func (w *world) look(a *attempt) {
	if w.mode != middleware.WhenBusy || !w.known() {
		return
	}
	neighbour := handlers.Address("203.0.254.1") // of the same network: it has sent nothing, and is refused only where work comes first
	if strings.Contains(a.addr, ":") {
		neighbour = handlers.Address("2001:db8:7::1")
	}
	peeked, err := a.life.m.Decide(w.t.Context(), middleware.Ask{Identity: neighbour, DryRun: true})
	require.NoError(w.t, err)
	if w.doing = middleware.WhenExhausted; !peeked.Admitted {
		w.doing = middleware.Newcomers
		w.busy++
	} else {
		w.calm++
	}
}

func (a *attempt) send(t *testing.T) {
	if a.asked {
		ask := middleware.Ask{Identity: handlers.Address(a.addr), Cost: a.cost, Tokens: a.tokens, DryRun: true}
		if ask.Identity.Tier = tiers[a.tier]; a.cost == 1 {
			ask.Cost = 0 // which is the same
		}
		handlers.Decided(t, a.life.m, ask) // which counts nothing
		ask.DryRun = false
		answer := handlers.Decided(t, a.life.m, ask)
		a.resp = &http.Response{StatusCode: answer.Status, Header: http.Header{}}
		if answer.Allowed {
			a.resp.StatusCode = http.StatusOK
		}
		a.resp.Header.Set(middleware.TokenHeader, answer.Token())
		return
	}
	options := []handlers.Option{handlers.From(a.addr), handlers.With("Tier", tiers[a.tier], "Inside", strconv.FormatBool(a.inside)), handlers.Costing(a.cost), handlers.Showing(a.tokens...)}
	if a.work != nil {
		options = append(options, handlers.Proving(a.work.proof))
	}
	a.resp = handlers.Send(a.life.h, options...)
}

// settle files what came back, writes the request into the logs, and checks the bounds.
func (w *world) settle(a *attempt) {
	bought, passed := "", a.resp.StatusCode == http.StatusOK
	if tok := handlers.TokenIn(a.resp); tok != "" {
		bought = handlers.ClaimsIn(w.t, tok).Fam
		for _, c := range w.clients {
			if c.addr == a.addr && (!w.sells || w.r.IntN(2) == 0) {
				c.tokens = append(c.tokens, tok)
			}
		}
	}
	if w.sells {
		w.requireSold(a, bought, passed)
	} else {
		for _, network := range networksOf(a.addr) {
			w.log(a, passed, network, wide, "a network gets more than its quota")
		}
	}
	if passed && a.cost > 0 {
		w.passed++
	}
	if passed && bought != "" {
		w.log(a, passed, bought, own, "an instance admits more than a quota to a tally")
	} else {
		w.log(a, passed, a.addr, shared, "an instance admits more than a quota")
	}
}

// log writes a request into the log of a tally or network. If it was admitted, the bound must hold, by the log of the instance and, of an
// honest client, by all of them.
func (w *world) log(a *attempt, passed bool, name string, scope int, what string) {
	e := event{w.at(a.life).UnixMicro(), a.cost, w.shapes[a.life.variant][a.tier][scope], w.owes(a.life.variant, scope), a.life, a.resp.StatusCode == insideRefuses}
	if !passed {
		e.cost = 0
	}
	w.logs[name] = append(w.logs[name], e)
	a.life.logs[name] = append(a.life.logs[name], e)
	if e.cost > 0 {
		w.requireBound(a.life.logs[name], scope, what)
		if w.honest && scope == shared {
			w.requireBound(w.logs[name], scope, "an honest client gets more than a quota from the fleet")
		}
	}
}

// requireSold checks which tally is charged, and with which proof.
func (w *world) requireSold(a *attempt, bought string, passed bool) {
	t, l := w.t, a.life
	if !w.known() && a.work != nil && l.last.Proof == "" && bought == a.work.tally() {
		w.sale(l, a.work)
	}
	if !passed {
		if l.last.Reason == middleware.NoToken {
			w.busy++
		}
		return
	}
	switch {
	case w.mode == middleware.EveryRequest:
		require.Empty(t, bought)
		require.NotNil(t, a.work, "no proof")
		require.Empty(t, a.reason)
		require.False(t, l.spent[a.work.Text], "a proof bought two requests of one instance")
		l.spent[a.work.Text] = true
	case bought != "":
		buyer := w.tallies[bought]
		require.NotNil(t, buyer, "a tally that no client bought")
		if w.known() {
			require.Contains(t, a.candidates, bought, "another client's tally")
			require.Equal(t, buyer.ends(), handlers.ClaimsIn(t, handlers.TokenIn(a.resp)).Exp, "a tally that lives on")
		}
	default:
		require.NotEqual(t, middleware.Newcomers, w.doing, "nothing is free here")
		require.False(t, a.opened, "the proof's tally is charged")
		if !w.known() {
			w.calm++
		}
	}
}

// requireBound checks the bound at the last event of a history. Where clocks
// differ the bound of the aligned window holds, under the largest quota there is.
func (w *world) requireBound(h history, scope int, what string) {
	last := h[len(h)-1]
	for i, l := range last.limits {
		if w.known() || bucket(l) && !w.sells && !w.full {
			require.True(w.t, h.mayPass(i), "%s: %+v", what, l)
			continue
		}
		most, owes, step := int64(0), int64(0), int64(math.MaxInt64)
		for _, tiers := range w.shapes {
			for _, shape := range tiers {
				l := shape[scope][i]
				if most = max(most, l.Quota); bucket(l) {
					owes, step = max(owes, l.Burst*interval(l)), min(step, interval(l))
				}
			}
		}
		used := int64(0)
		switch {
		case bucket(l):
			h.requireSpans(w.t, owes, step)
		case scope == own && l.Window > time.Hour: // a pass never gets back what it has of a long limit
			used = h.inAll()
		default:
			used = h.inCore(l, last.at/l.Window.Microseconds(), w.skew.Microseconds())
		}
		require.LessOrEqual(w.t, used, most, "%s: %+v", what, l)
	}
}

// requireReason checks that a refused request deserves it. A tally, or one of its networks, is over a
// limit: by all that was ever admitted, not just by what the instance knows.
func (w *world) requireReason(a *attempt) {
	switch {
	case a.resp.StatusCode == http.StatusOK:
		return
	case a.resp.StatusCode == insideRefuses:
		w.inside++
		return
	}
	w.refused++
	switch {
	case w.refusing || w.full || w.sells && w.skewed:
	case w.sells:
		w.requireRefusal(a)
	default:
		w.requireOver(a, a.addr, shared)
	}
}

// requireOver checks that a tally, or a network of the client, is over a limit.
func (w *world) requireOver(a *attempt, tally string, scope int) {
	at, skew := w.at(a.life).UnixMicro(), w.skew.Microseconds()
	shape := w.shapes[a.life.variant][a.tier]
	for i, l := range shape[scope] {
		if !w.logs[tally].mustPass(i, l, at, a.cost, skew) {
			return
		}
		for _, network := range networksOf(a.addr) {
			if !a.life.logs[network].mustPass(i, shape[wide][i], at, a.cost, skew) {
				return
			}
		}
	}
	require.Fail(w.t, "a tally under its limit is refused", "%s of %s, cost %d: %s", tally, a.addr, a.cost, a.resp.Header.Get("RateLimit"))
}

// requireRefusal checks the reason of a refusal, and what it offers.
func (w *world) requireRefusal(a *attempt) {
	t, l, p := w.t, a.life, handlers.ProblemIn(w.t, a.resp)
	price := l.prices.Quote(w.now.Now(), l.shop, l.buyers(a.addr)).Price
	require.NotEqual(t, middleware.SoldOut, p.Reason)
	if a.resp.Header.Get(middleware.ChallengeHeader) != "" && w.mode != middleware.EveryRequest {
		require.GreaterOrEqual(t, p.Work, price, "offered below the price")
	} else {
		require.NotEqual(t, middleware.Newcomers, w.doing, "nothing is offered")
	}
	if a.reason != "" && p.Reason != "replayed" {
		require.Equal(t, a.reason, p.Reason)
	}
	switch {
	case w.mode == middleware.EveryRequest && a.resp.StatusCode == http.StatusTooManyRequests:
		w.requireOver(a, a.addr, shared)
	case w.mode == middleware.EveryRequest:
		good := a.work != nil && a.reason == ""
		require.True(t, !good || l.spent[a.work.Text], "a good proof, not spent here, and refused")
	case w.doing == middleware.Newcomers && len(a.candidates) == 0:
		require.Contains(t, []middleware.Reason{middleware.NoToken, middleware.SoldOut, a.reason}, p.Reason)
	default:
		for _, tally := range a.candidates {
			w.requireOver(a, tally, own)
		}
		if w.doing == middleware.WhenExhausted && !a.opened {
			w.requireOver(a, a.addr, shared)
		}
	}
}

// together sends six requests at once: any, or, where proofs are redeemed, the same one. Those that were admitted are settled first.
func (w *world) together() {
	attempts, one := make([]*attempt, 6), w.attempt()
	for i := range attempts {
		same := *one
		if attempts[i] = &same; !w.sells {
			attempts[i] = w.attempt()
		}
		attempts[i].tier = one.tier // the log knows no order among them
		// Until it is refused inside, a request counts: in what others are refused for, and in their tokens. See docs/bounds.md.
		attempts[i].inside = attempts[i].inside && w.refusing
	}
	kit.Together(len(attempts), func(i int) { attempts[i].send(w.t) })
	slices.SortStableFunc(attempts, func(a, b *attempt) int { return a.resp.StatusCode - b.resp.StatusCode })
	for _, a := range attempts {
		w.settle(a)
	}
	for _, a := range attempts {
		w.requireReason(a)
	}
}

// once sends one request.
func (w *world) once() {
	a := w.attempt()
	a.send(w.t)
	if w.sells {
		w.settle(a)
		w.requireReason(a)
		return
	}
	w.requireReason(a)
	w.settle(a)
}

func (w *world) step() {
	w.now.Advance(time.Duration(w.r.Int64N(int64(300 * time.Millisecond))))
	switch op := w.r.IntN(40); {
	case op == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(40 * time.Second))))
	case op == 1 && len(w.lives) < 12:
		w.restart(w.r.IntN(len(w.fleet)))
	case op == 2:
		w.requote()
	case op == 3:
		w.rotate()
	case op == 4 && w.full:
		w.flood()
	case op < 6 && !w.honest && (w.known() || !w.sells) && w.mode != middleware.WhenBusy: // an instance may become busy in between
		w.together()
	case op < 15 && w.sells:
		w.trade(op)
	default:
		w.once()
	}
}

// trade is what happens only where tallies are sold.
func (w *world) trade(op int) {
	c := w.anybody()
	switch {
	case op == 6 && w.known():
		c.addr = w.clients[w.r.IntN(len(w.clients))].addr
	case op == 7 && !w.known() && w.r.IntN(3) == 0:
		w.now.Advance(time.Duration(w.r.Int64N(int64(3 * time.Hour))))
	case op == 7: // stockpile
		for range 5 {
			w.fetch(c)
		}
	case op < 12:
		w.fetch(c)
	default:
		w.redeem(c)
	}
}

// The promise of the whole library, over random traces of requests, dropped,
// replayed, forked, stolen and forged tokens, restarts, changed quotas and
// tiers, rotated secrets, clocks that differ, requests in parallel, requests that a policy inside refuses, and others that are
// asked about outside of HTTP.
func TestTraces(t *testing.T) {
	for mode, s := range map[string]setting{"hostile": {}, "skewed": {skewed: true}, "honest": {honest: true}, "refusing": {refusing: true}} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("%s/seed=%d", mode, seed), func(t *testing.T) {
				w := played(t, seed, s, 250)
				require.Greater(t, w.inside, 10, "and inside")
			})
		}
	}
}

// played plays a trace.
func played(t *testing.T, seed uint64, s setting, steps int) *world {
	w := newWorld(t, seed, s)
	for range steps {
		w.step()
	}
	require.Greater(t, w.refused, 10, "the workload is refused")
	if s.full {
		return w
	}
	require.Greater(t, w.passed, 30, "and passes")
	for _, l := range w.lives {
		require.Zero(t, l.m.Stats().Saturations)
	}
	return w
}

// selling are all modes, by name.
func selling() map[string]middleware.Mode {
	modes := maps.Clone(handlers.AllModes)
	modes["WhenBusy"] = middleware.WhenBusy
	return modes
}

// The promises about own tallies and proofs, over random traces of clients that
// share addresses, solve, stockpile, redeem, drop, replay and steal, while
// instances restart, rotate secrets and change quotas. All that is refused, and why, is known beforehand.
func TestProofTraces(t *testing.T) {
	seeds := uint64(12)
	if !kit.Whole() {
		seeds = 2
	}
	calm, busy := 0, 0
	for name, mode := range selling() {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				w := played(t, seed, setting{mode: mode, sells: true}, 600)
				require.Less(t, w.now.Now().Sub(handlers.Midnight), time.Hour, "all sales are remembered")
				calm, busy = calm+w.calm, busy+w.busy
			})
		}
	}
	require.Greater(t, calm, 100, "calm instances")
	require.Greater(t, busy, 20, "and busy ones")
}

// The bounds of docs/bounds.md, and nothing else, under all that may come together: several
// instances that start anew, clocks that differ within what is permitted, tiers, a memory
// that is full, and clients that work, and drop, replay, fork and steal tokens. It looks at
// no state inside, so that it holds for every rule that keeps the promises.
func TestBoundsUnderAttack(t *testing.T) {
	seeds := uint64(16)
	if kit.Brief() {
		seeds = 2
	}
	calm, busy := 0, 0
	modes := selling()
	modes["none"] = middleware.WhenExhausted
	for name, mode := range modes {
		for _, full := range []bool{false, true} {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s/full=%t/seed=%d", name, full, seed), func(t *testing.T) {
					w := played(t, seed, setting{mode: mode, sells: name != "none", skewed: true, full: full}, 600)
					if mode == middleware.WhenBusy {
						calm, busy = calm+w.calm, busy+w.busy
					}
					if !full && w.sells && mode != middleware.EveryRequest {
						require.Greater(t, w.sales, 10, "and buys")
					}
				})
			}
		}
	}
	require.Greater(t, busy, 100, "busy instances")
	require.Greater(t, calm, 100, "and calm ones")
}

// An event is one request in the log of a tally or of a network. A refused
// request has no cost, and neither has a look.
type event struct {
	at     int64 // by the clock of the instance that admitted it, µs
	cost   int64
	limits []middleware.Limit // in force
	owes   []int64            // the most that any tier's bucket can be owed there, µs
	life   *life              // to which the request went
	back   bool               // it was counted, and given back as a policy inside refused it: the instance remembers the client
}

// A history is every request, in the order in which they happened. What it
// says of a limit is worked out anew for each question, from the definitions.
type history []event

func bucket(l middleware.Limit) bool { return l.Burst > 0 }

func bucketOf(l middleware.Limit) truth.Bucket {
	return truth.Bucket{Quota: l.Quota, Window: l.Window.Microseconds(), Burst: l.Burst}
}

func interval(l middleware.Limit) int64 { return bucketOf(l).Interval() }

// mayPass says whether a memory that saw all of h would have let the last event
// of it pass. It is the bound: an instance remembers at least this much.
func (h history) mayPass(i int) bool {
	before, last := h[:len(h)-1], h[len(h)-1]
	l := last.limits[i]
	if !bucket(l) {
		return before.windowFits(i, l, last.at/l.Window.Microseconds(), last.at, last.cost, 0)
	}
	return h.mark(i)-last.at <= interval(l)*l.Burst
}

// mark is the mark of a bucket, after all of h, in the token of a client that shows
// the newest and in the memory of the instance that it came to last.
func (h history) mark(i int) (mark int64) {
	memories := map[*life]int64{}
	for _, e := range h {
		// By this configuration, and whatever the clocks permit, no client owes more.
		most := e.owes[i] + maxSkew(e.limits[i:i+1]).Microseconds()
		memory, known := memories[e.life]
		if memory-e.at > most {
			memory = e.at + e.owes[i]
			memories[e.life] = memory
		}
		switch {
		case mark-e.at > most && known:
			mark = memory
		case mark-e.at > most:
			mark = e.at + e.owes[i]
			memories[e.life] = mark
		}
		mark = max(mark, memory, e.at)
		if e.back {
			memories[e.life] = memory
		}
		if e.cost > 0 {
			mark += e.cost * interval(e.limits[i])
			memories[e.life] = mark
		}
	}
	return mark
}

// mustPass says whether a tally with this history is under a limit even if all
// of it is known, and counted in whichever window is worse.
func (h history) mustPass(i int, l middleware.Limit, at, cost, skew int64) bool {
	if !bucket(l) {
		w := l.Window.Microseconds()
		return cost == 0 || h.windowFits(i, l, at/w, at, cost, skew) && h.windowFits(i, l, (at+skew)/w, at, cost, skew)
	}
	mark := int64(0)
	for _, e := range h {
		mark = max(mark, e.at) + e.cost*interval(e.limits[i])
	}
	return cost == 0 || bucketOf(l).Fits(mark-at, cost)
}

// windowFits says whether cost fits into a window. An event counts in the window
// of its time, and with skew in the next one too if that is near.
func (h history) windowFits(i int, l middleware.Limit, window, at, cost, skew int64) bool {
	w := l.Window.Microseconds()
	var cur, prev int64
	for _, e := range h {
		for _, in := range slices.Compact([]int64{e.at / w, (e.at + skew) / w}) {
			switch in {
			case window:
				cur += e.cost
			case window - 1:
				prev += e.cost
			}
		}
	}
	if l.Algorithm == middleware.FixedWindow {
		prev = 0
	}
	return truth.Window{Quota: l.Quota, Length: w}.Fits(max(0, at-window*w), prev, cur, cost)
}

// requireSpans checks a bucket in every span that ends with the last event: under several configurations, with the largest debt
// and the smallest step.
func (h history) requireSpans(t require.TestingT, owes, step int64) {
	last, sum := h[len(h)-1].at, int64(0)
	for i := len(h) - 1; i >= 0; i-- {
		sum += h[i].cost
		require.LessOrEqual(t, sum, (owes+last-h[i].at)/step)
	}
}

// inCore sums what one aligned window has admitted, leaving out its last
// moments, when by another clock the next one may have begun.
func (h history) inCore(l middleware.Limit, window, skew int64) (sum int64) {
	w := l.Window.Microseconds()
	for _, e := range h {
		if e.at/w == window && e.at+skew < (window+1)*w {
			sum += e.cost
		}
	}
	return sum
}

// inAll sums all that was admitted.
func (h history) inAll() (sum int64) {
	for _, e := range h {
		sum += e.cost
	}
	return sum
}

// maxSkew is how far clocks may differ for a limit: DESIGN says min(5 s, W/10).
func maxSkew(limits []middleware.Limit) time.Duration {
	least := 5 * time.Second
	for _, l := range limits {
		least = min(least, l.Window/10)
	}
	return least
}

// A work is a challenge that a client fetched, and its proof once it is solved.
type work struct {
	pow.Challenge
	addr   string // that it is bound to
	issued time.Time
	proof  string // "" until solved
}

// tally is the id of what a challenge opens, by the definition of its bytes.
func (c *work) tally() string {
	raw, _ := base64.RawURLEncoding.DecodeString(c.Text)
	return base64.RawURLEncoding.EncodeToString(raw[14 : 14+6])
}

// ends is when the tally ends, in Unix seconds: an hour after the challenge.
func (c *work) ends() int64 { return c.issued.Unix() + 3600 }

// reason is why a proof is no good for an address at a time; "" if it is good.
func (c *work) reason(addr string, now time.Time) middleware.Reason {
	issued := c.issued.Truncate(time.Second)
	switch {
	case now.Before(issued.Add(-2*time.Second)) || !now.Before(issued.Add(c.TTL+time.Second)):
		return "expired"
	case addr != c.addr:
		return "client-changed"
	}
	return ""
}

// A sold is a tally that an instance has opened: when, by its clock, and for what work.
type sold struct{ second, work int64 }

// fetch gets a challenge, for now or for the stock, unless it is dear.
func (w *world) fetch(c *visitor) {
	resp := handlers.Fetched(w.anywhere().h, handlers.From(c.addr))
	if resp.Header.Get(middleware.ChallengeHeader) == "" {
		return
	}
	if offered := handlers.ChallengeIn(w.t, resp); offered.Work <= 1<<14 {
		c.works = append(c.works, &work{Challenge: offered, addr: c.addr, issued: w.now.Now()})
	}
}

// anyProof picks a proof of a client's, mostly a late one, and solves it if need
// be; nil if there is none.
func (w *world) anyProof(c *visitor) *work {
	if len(c.works) == 0 {
		return nil
	}
	i := len(c.works) - 1
	if w.r.IntN(2) == 0 {
		i = w.r.IntN(len(c.works))
	}
	if c.works[i].proof == "" {
		c.works[i].proof = handlers.Solve(w.t, c.works[i].Challenge)
	}
	return c.works[i]
}

// expected is what becomes of a proof that a client shows to an instance, where that is known. If it opens a tally, that is
// written down.
func (w *world) expected(l *life, p *work, addr string) middleware.Reason {
	reason := p.reason(addr, w.now.Now())
	if reason != "" || w.mode == middleware.EveryRequest || l.opened[p.tally()] {
		return reason
	}
	// The books of prices are another memory: what it sells is checked in its package.
	if !l.prices.Redeem(w.now.Now(), l.shop, l.buyers(addr), l.shop.Key([]byte(p.tally())), w.now.Now(), int64(p.Work)).Granted {
		return "price-risen"
	}
	w.sale(l, p)
	return ""
}

func (l *life) buyers(addr string) []sale.Buyer {
	return []sale.Buyer{{Key: l.shop.Key([]byte(addr)), Crowds: 1}}
}

// sale writes down that a tally is open on an instance.
func (w *world) sale(l *life, p *work) {
	if w.tallies[p.tally()] = p; l.opened[p.tally()] {
		return
	}
	l.opened[p.tally()] = true
	l.sold[p.addr] = append(l.sold[p.addr], sold{w.at(l).Unix(), int64(p.Work)})
	w.sales++
	w.requirePaid(l.sold[p.addr], p.addr)
}

// requirePaid checks what an instance has sold to an address: in any span that ends with the last sale no
// more than leaks in it, and what the work in it buys.
func (w *world) requirePaid(list []sold, addr string) {
	tariff := truth.Tariff{Work: w.tariff.Work, Crowd: w.tariff.Crowd, Leak: w.tariff.SalesPerHour}
	paid := int64(0)
	for i := len(list) - 1; i >= 0; i-- {
		paid += list[i].work
		span := list[len(list)-1].second - list[i].second + 1
		require.LessOrEqual(w.t, int64(len(list)-i), tariff.Most(paid, span), "%s bought too much for %d hashes in %d s", addr, paid, span)
	}
}

// redeem asks for a tally's first token: one instance or all, and, where it is known what must come of it, once or many times.
func (w *world) redeem(c *visitor) {
	p, to, times := w.anyProof(c), w.fleet, 1
	if p == nil || w.mode == middleware.EveryRequest {
		return
	}
	if w.r.IntN(2) == 0 {
		to = []*life{w.anywhere()}
	}
	if w.known() {
		times += 7 * w.r.IntN(2)
	}
	for _, l := range to {
		reason := middleware.Reason("")
		if w.known() {
			reason = w.expected(l, p, c.addr)
		}
		answers := make([]*http.Response, times)
		kit.Together(times, func(i int) { answers[i] = handlers.Redeemed(l.h, p.proof, handlers.From(c.addr)) })
		for _, resp := range answers {
			if resp.StatusCode != http.StatusOK {
				if w.known() {
					require.Equal(w.t, reason, handlers.ProblemIn(w.t, resp).Reason)
				}
				continue
			}
			require.Empty(w.t, reason)
			w.sale(l, p)
			claims := handlers.ClaimsIn(w.t, handlers.TokenIn(resp))
			require.Equal(w.t, p.tally(), claims.Fam, "derived from the challenge alone")
			require.Empty(w.t, claims.T)
			if w.known() {
				require.Equal(w.t, p.ends(), claims.Exp, "and so is its end")
				require.Equal(w.t, handlers.TokenIn(answers[0]), handlers.TokenIn(resp))
			}
			c.tokens = append(c.tokens, handlers.TokenIn(resp))
		}
	}
}

// flood fills the memory: strangers come once each.
func (w *world) flood() {
	for range 20 + w.r.IntN(100) {
		handlers.Send(w.anywhere().h, handlers.From(fmt.Sprintf("198.51.%d.%d", w.r.IntN(256), w.r.IntN(256))))
	}
}

// A life is one instance between two starts: all it ever remembered.
type life struct {
	m       *middleware.Middleware
	h       http.Handler
	variant int           // of the quotas that it runs
	stage   int           // of the rotation that it has reached
	offset  time.Duration // of its clock
	logs    map[string]history
	last    middleware.Decision // where requests come one after the other

	// What it sells.
	opened map[string]bool   // tallies
	spent  map[string]bool   // proofs that bought a request
	sold   map[string][]sold // by address
	shop   *limiter.Memory   // the books of a world in which all is known
	prices *sale.Prices
}

// A visitor is a client behind an address, perhaps together with others, and forgets nothing that it ever got.
type visitor struct {
	addr   string
	tokens []string
	works  []*work
}

// A setting has the parameters of a trace.
type setting struct {
	mode     middleware.Mode
	sells    bool // there is a challenge
	honest   bool // a client shows its newest token
	skewed   bool // clocks differ
	refusing bool // a policy inside refuses, also requests that are under way at once
	full     bool // the memory is tiny, and strangers fill it
}

// A shape is the limits of a client, of a network, and of a tally that is bought, with their defaults.
type shape [3][]middleware.Limit

const (
	shared = iota
	wide
	own
)

// A world is some instances that share secrets, some clients, and the log of
// all that was admitted.
type world struct {
	setting
	t       *testing.T
	r       *rand.Rand
	now     *handlers.Clock
	skew    time.Duration
	nets    int64       // Net56Factor and Net48Factor
	shapes  [2][2]shape // by variant and tier
	tariff  middleware.Challenge
	fleet   []*life
	lives   []*life            // all there ever were
	logs    map[string]history // of each tally
	clients []*visitor
	tallies map[string]*work // that were opened
	doing   middleware.Mode  // the mode, and with WhenBusy the mode of an instance at the moment it is asked, if it is known
	stage   int              // that all instances have reached, or are reaching
	since   time.Time        // when the last of them did

	refused, passed, inside, sales int
	calm, busy                     int // how often instances were, with WhenBusy
}

var (
	tiers = [2]string{"", "pro"}
	// addresses are two of IPv4, and three of one IPv6 /56.
	traceAddresses = []string{"203.0.113.1", "203.0.113.2", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}
)

func networksOf(addr string) []string {
	if addr[:4] == "2001" {
		return []string{"/56", "/48"}
	}
	return nil
}

// Limits of two tiers where the clocks of instances that sell differ: short windows, a day's quota beside one, a bucket,
// a window that is longer than a pass.
var skewedPolicies = [][2][]middleware.Limit{
	{{{Quota: 5, Window: time.Minute}}, {{Quota: 7, Window: time.Minute}}},
	{
		{handlers.Fixed(4, time.Minute), {Quota: 30, Window: 24 * time.Hour}},
		{handlers.Fixed(3, time.Minute), {Quota: 100, Window: 24 * time.Hour}},
	},
	{
		{{Algorithm: middleware.TokenBucket, Quota: 6, Burst: 3, Window: time.Minute}},
		{{Algorithm: middleware.TokenBucket, Quota: 6, Burst: 5, Window: time.Minute}},
	},
	{{handlers.Fixed(4, 90*time.Minute)}, {handlers.Fixed(6, 90*time.Minute)}},
}

// known says that an oracle knows what each instance decides: clocks agree, and no client is forgotten.
func (w *world) known() bool { return !w.skewed && !w.full }

func newWorld(t *testing.T, seed uint64, s setting) *world {
	w := &world{
		setting: s, t: t, r: handlers.Random(seed), now: new(handlers.Clock), nets: 2,
		logs: map[string]history{}, tallies: map[string]*work{}, doing: s.mode,
	}
	addresses, clients, most := traceAddresses, len(traceAddresses), 4
	if s.sells {
		w.nets, clients, most = 1000, 6, 3
	}
	for variant := range w.shapes {
		for tier := range w.shapes[variant] {
			p := kit.Must(limiter.Compile("contact", w.limits(seed, variant, tier)))(t)
			w.shapes[variant][tier] = shape{limitsOf(p), limitsOf(p.Scale(w.nets)), limitsOf(p.Pass(time.Hour))}
		}
	}
	if s.skewed {
		w.skew = maxSkew(w.shapes[0][0][shared])
	}
	if s.sells {
		if w.known() {
			addresses = addresses[:3] // the one of IPv6 is alone in its networks, which are cheaper
		} else {
			w.now.Advance(24*time.Hour - time.Minute) // what a pass has does not come back at midnight
		}
		w.tariff = middleware.Challenge{Mode: s.mode, Work: 16, Crowd: 1 + w.r.Int64N(3), SalesPerHour: 4 + 9*int64(seed%5), BindOwn: seed%2 == 1, Path: "/tally/", NoWaitingRoom: true}
		if s.mode == middleware.WhenBusy {
			w.tariff.BusyPerSecond = 1
		}
	}
	for i := range clients {
		w.clients = append(w.clients, &visitor{addr: addresses[i%len(addresses)]})
	}
	for range 1 + w.r.IntN(most) {
		w.fleet = append(w.fleet, nil)
		w.restart(len(w.fleet) - 1)
	}
	return w
}

// limits returns the limits of a variant and a tier.
func (w *world) limits(seed uint64, variant, tier int) (limits []middleware.Limit) {
	switch {
	case w.sells && w.known():
		return []middleware.Limit{handlers.Fixed(3+w.r.Int64N(3), time.Minute)}
	case w.sells:
		return skewedPolicies[seed%uint64(len(skewedPolicies))][tier]
	}
	for i, a := range [][]storeless.Algorithm{
		{storeless.SlidingWindow}, {middleware.FixedWindow}, {middleware.TokenBucket}, {storeless.LeakyBucket},
		{storeless.SlidingWindow, middleware.FixedWindow, middleware.TokenBucket},
	}[seed%5] {
		l := middleware.Limit{Algorithm: a, Quota: 2 + w.r.Int64N(6), Window: time.Duration(10+20*i) * time.Second}
		if a == middleware.TokenBucket {
			l.Burst = 1 + w.r.Int64N(2*l.Quota)
			if tier == 1 && w.r.IntN(2) == 0 { // far more than the other tier can be owed
				l.Burst *= 10
			}
		}
		limits = append(limits, l)
	}
	return limits
}

func limitsOf(p *limiter.Policy) (all []middleware.Limit) {
	for i := range p.Len() {
		all = append(all, limiter.LimitAs[middleware.Limit](p.Limit(i)))
	}
	return all
}

// owes is the most that a bucket of any tier can be owed, limit by limit, µs.
func (w *world) owes(variant, scope int) []int64 {
	most := make([]int64, len(w.shapes[variant][0][scope]))
	for _, tier := range w.shapes[variant] {
		for i, l := range tier[scope] {
			most[i] = max(most[i], l.Burst*interval(l))
		}
	}
	return most
}

func (w *world) config(l *life) middleware.Config {
	cfg := handlers.Contact(nil)
	cfg.Now = func() time.Time { return w.at(l) }
	cfg.Cost, cfg.Net56Factor, cfg.Net48Factor, cfg.MaxClients = handlers.CostOf, w.nets, w.nets, 4096
	cfg.Limits = w.shapes[l.variant][0][shared]
	cfg.Tiers = map[string][]middleware.Limit{"pro": w.shapes[l.variant][1][shared]}
	cfg.Identity = handlers.ByTier(middleware.PeerAddress)
	if w.full {
		cfg.MaxClients = 1
	}
	if w.sells {
		challenge := w.tariff
		cfg.Challenge = &challenge
	}
	if w.sells && !w.known() {
		cfg.OnDecision = func(_ context.Context, d middleware.Decision) { l.last = d }
	}
	// Stages: the new secret joins; it signs; the old one goes, if no tally that was bought needs it.
	n := l.stage / 3
	secret := func(n int) []byte { return handlers.Secret(fmt.Sprint(n)) }
	cfg.Secrets = [][][]byte{{secret(n)}, {secret(n), secret(n + 1)}, {secret(n + 1), secret(n)}}[l.stage%3]
	for older := n - 1; w.sells && older >= 0; older-- {
		cfg.Secrets = append(cfg.Secrets, secret(older))
	}
	return cfg
}

// at is the time by the clock of an instance.
func (w *world) at(l *life) time.Time { return w.now.Now().Add(l.offset) }

// restart is a cold start. It may come back with another clock.
func (w *world) restart(i int) {
	l := &life{logs: map[string]history{}, stage: w.stage, opened: map[string]bool{}, spent: map[string]bool{}, sold: map[string][]sold{}}
	if before := w.fleet[i]; before != nil {
		l.variant, l.stage = before.variant, before.stage
	}
	if w.skew > 0 {
		l.offset = time.Duration(w.r.Int64N(int64(w.skew)))
	}
	if w.sells && w.known() {
		var err error
		l.shop = limiter.NewMemory(0, 1)
		l.prices, err = sale.Tariff{Work: w.tariff.Work, Crowd: w.tariff.Crowd, SalesPerHour: w.tariff.SalesPerHour}.Compile()
		require.NoError(w.t, err)
	}
	l.m = handlers.NewLimiter(w.t, w.config(l))
	mux := http.NewServeMux()
	mux.Handle("/", l.m.Handler(refusingInside(w.t)))
	mux.Handle("/tally/", l.m.Endpoints())
	l.h = mux
	w.fleet[i] = l
	w.lives = append(w.lives, l)
}

// insideRefuses is how refusingInside refuses.
const insideRefuses = http.StatusTeapot

// refusingInside is a policy that refuses what says so, and counts nothing.
func refusingInside(t *testing.T) http.Handler {
	cfg := handlers.Contact(new(handlers.Clock))
	cfg.Policy, cfg.TokenTransport = "inside", middleware.MemoryOnly
	cfg.Cost = func(r *http.Request) int64 {
		if r.Header.Get("Inside") == "true" {
			return cfg.Limits[0].Quota + 1
		}
		return 0
	}
	cfg.RefusalHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(insideRefuses) })
	return handlers.NewLimiter(t, cfg).Handler(new(handlers.Spy))
}

// requote has an instance run its other quotas.
func (w *world) requote() {
	l := w.anywhere()
	l.variant = 1 - l.variant
	require.NoError(w.t, l.m.Reconfigure(w.config(l)))
}

// rotate moves one instance to the next stage. No secret goes before two of the
// longest windows have passed, so that no client loses a token over it.
func (w *world) rotate() {
	for _, l := range w.fleet {
		if l.stage < w.stage {
			l.stage++
			require.NoError(w.t, l.m.Reconfigure(w.config(l)))
			w.since = w.now.Now()
			return
		}
	}
	if w.sells && w.stage < 18 || !w.sells && (w.stage%3 != 2 || w.now.Now().Sub(w.since) > 2*50*time.Second) {
		w.stage++
	}
}

func (w *world) anywhere() *life { return w.fleet[w.r.IntN(len(w.fleet))] }

func (w *world) anybody() *visitor { return w.clients[w.r.IntN(len(w.clients))] }
