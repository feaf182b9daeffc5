package middleware_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// A life is one instance between two starts: all it ever remembered.
type life struct {
	m       *middleware.Middleware
	h       http.Handler
	variant int           // of the quotas that it runs
	stage   int           // of the rotation that it has reached
	offset  time.Duration // of its clock
	logs    map[string]history
}

// A world is some instances that share secrets, some clients, and the log of
// all that was admitted.
type world struct {
	t       *testing.T
	r       *rand.Rand
	mode    string
	now     *clock
	skew    time.Duration
	shapes  [2][2][]middleware.Limit // by variant and tier, defaults filled in
	fleet   []*life
	logs    map[string]history // of each family
	wallets map[string][]string
	stage   int       // that all instances have reached, or are reaching
	since   time.Time // when the last of them did

	refused, passed int
}

const nets = 2 // Net56 and Net48 of every trace

var tiers = [2]string{"", "pro"}

// clients are two addresses, and three of one IPv6 /56.
var clients = []string{"203.0.113.1", "203.0.113.2", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}

func networksOf(addr string) []string {
	if addr[:4] == "2001" {
		return []string{"/56", "/48"}
	}
	return nil
}

func newWorld(t *testing.T, seed uint64, mode string) *world {
	w := &world{t: t, r: random(seed), mode: mode, now: new(clock), logs: map[string]history{}, wallets: map[string][]string{}}
	algorithms := [][]storeless.Algorithm{
		{middleware.SlidingWindow}, {middleware.FixedWindow}, {middleware.TokenBucket}, {middleware.LeakyBucket},
		{middleware.SlidingWindow, middleware.FixedWindow, middleware.TokenBucket},
	}[seed%5]
	for variant := range w.shapes {
		for tier := range w.shapes[variant] {
			var limits []middleware.Limit
			for i, a := range algorithms {
				l := middleware.Limit{Algorithm: a, Quota: 2 + w.r.Int64N(6), Window: time.Duration(10+20*i) * time.Second}
				if a == middleware.TokenBucket {
					// At most two windows of debt: more, in another tier, would
					// be taken for that of a wrong clock.
					l.Burst = 1 + w.r.Int64N(2*l.Quota)
				}
				limits = append(limits, l)
			}
			w.shapes[variant][tier] = filledIn(t, limits, 1)
		}
	}
	if mode == "skewed" {
		w.skew = maxSkew(w.shapes[0][0])
	}
	for range 1 + w.r.IntN(4) {
		w.fleet = append(w.fleet, nil)
		w.restart(len(w.fleet) - 1)
	}
	return w
}

// filledIn returns limits with their defaults, times a factor.
func filledIn(t *testing.T, limits []middleware.Limit, factor int64) (all []middleware.Limit) {
	p, err := storeless.Compile("contact", limits)
	require.NoError(t, err)
	p = p.Scale(factor)
	for i := range p.Len() {
		all = append(all, p.Limit(i))
	}
	return all
}

func (w *world) config(l *life) middleware.Config {
	cfg := contact(nil)
	cfg.Now = func() time.Time { return w.now.Now().Add(l.offset) }
	cfg.Carriage, cfg.Cost, cfg.Net56, cfg.Net48 = middleware.Both, costOf, nets, nets
	cfg.Limits = w.shapes[l.variant][0]
	cfg.Tiers = map[string][]middleware.Limit{"pro": w.shapes[l.variant][1]}
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := middleware.PeerAddress(r)
		id.Tier = r.Header.Get("Tier")
		return id, err
	}
	// Stages: the new secret joins; it signs; the old one goes.
	old, next := secret(fmt.Sprint(l.stage/3)), secret(fmt.Sprint(l.stage/3+1))
	cfg.Secrets = [][][]byte{{old}, {old, next}, {next, old}}[l.stage%3]
	return cfg
}

// restart is a cold start. It may come back with another clock.
func (w *world) restart(i int) {
	l := &life{logs: map[string]history{}, stage: w.stage}
	if before := w.fleet[i]; before != nil {
		l.variant, l.stage = before.variant, before.stage
	}
	if w.skew > 0 {
		l.offset = time.Duration(w.r.Int64N(int64(w.skew)))
	}
	l.m = newLimiter(w.t, w.config(l))
	l.h = l.m.Handler(new(spy))
	w.fleet[i] = l
}

// rotate moves one instance to the next stage. No secret goes before two of the
// longest windows have passed, so that nobody loses a token over it.
func (w *world) rotate() {
	for _, l := range w.fleet {
		if l.stage < w.stage {
			l.stage++
			require.NoError(w.t, l.m.Reconfigure(w.config(l)))
			w.since = w.now.Now()
			return
		}
	}
	if w.stage%3 != 2 || w.now.Now().Sub(w.since) > 2*50*time.Second {
		w.stage++
	}
}

// shown are the tokens that a client shows: the newest, if it is honest.
func (w *world) shown(addr string) (shown []string) {
	wallet := w.wallets[addr]
	if len(wallet) == 0 {
		return nil
	}
	newest := wallet[len(wallet)-1]
	if w.mode == "honest" {
		return []string{newest}
	}
	pick := func(wallet []string) string { return wallet[w.r.IntN(len(wallet))] }
	switch w.r.IntN(6) {
	case 0:
		return []string{newest}
	case 1: // replay, roll back
		return []string{pick(wallet)}
	case 2: // fork
		return []string{pick(wallet), pick(wallet)}
	case 3: // steal
		if others := w.wallets[clients[w.r.IntN(len(clients))]]; len(others) > 0 {
			return []string{pick(others)}
		}
	case 4: // forge
		return []string{newest[:len(newest)-4] + "AAAA"}
	}
	return nil // drop
}

type attempt struct {
	life   *life
	addr   string
	tier   int
	cost   int64
	tokens []string
	resp   *http.Response
}

func (w *world) attempt() *attempt {
	addr := clients[w.r.IntN(len(clients))]
	a := &attempt{life: w.fleet[w.r.IntN(len(w.fleet))], addr: addr, cost: 1, tokens: w.shown(addr), tier: w.r.IntN(12) / 8}
	if w.r.IntN(6) == 0 {
		a.cost = w.r.Int64N(4)
	}
	return a
}

func (a *attempt) send() {
	a.resp = send(a.life.h, from(a.addr), with("Tier", tiers[a.tier]), costing(a.cost), showing(a.tokens...))
}

// settle writes an admitted request into the logs and checks the bounds.
func (w *world) settle(a *attempt) {
	if tok := tokenIn(a.resp); tok != "" {
		w.wallets[a.addr] = append(w.wallets[a.addr], tok)
	}
	if a.resp.StatusCode != http.StatusOK || a.cost == 0 {
		return
	}
	w.passed++
	at := w.now.Now().Add(a.life.offset).UnixMicro()
	limits := w.shapes[a.life.variant][a.tier]
	e := event{at, a.cost, limits}
	w.logs[a.addr] = append(w.logs[a.addr], e)
	a.life.logs[a.addr] = append(a.life.logs[a.addr], e)
	w.requireBound(a.life.logs[a.addr], 1, "an instance admits more than a quota")
	if w.mode == "honest" {
		w.requireBound(w.logs[a.addr], 1, "an honest client gets more than a quota from the fleet")
	}
	for _, network := range networksOf(a.addr) {
		a.life.logs[network] = append(a.life.logs[network], event{at, a.cost, filledIn(w.t, limits, nets)})
		w.requireBound(a.life.logs[network], nets, "a network gets more than its quota")
	}
}

// requireBound checks the bound at the last event of a history. Where clocks
// differ it is that of the aligned window, under the largest quota there is.
func (w *world) requireBound(h history, factor int64, what string) {
	last := h[len(h)-1]
	for i, l := range last.limits {
		if w.skew == 0 || bucket(l) {
			require.True(w.t, h.mayPass(i), "%s: %+v", what, l)
			continue
		}
		most := int64(0)
		for _, variant := range w.shapes {
			most = max(most, factor*variant[0][i].Quota, factor*variant[1][i].Quota)
		}
		require.LessOrEqual(w.t, h.inCore(l, last.at/l.Window.Microseconds(), w.skew.Microseconds()), most, "%s: %+v", what, l)
	}
}

// requireReason checks that a refused family, or one of its networks, is over a
// limit: by all that was ever admitted, not just by what the instance knows.
func (w *world) requireReason(a *attempt) {
	if a.resp.StatusCode == http.StatusOK {
		return
	}
	w.refused++
	at, skew := w.now.Now().Add(a.life.offset).UnixMicro(), w.skew.Microseconds()
	limits := w.shapes[a.life.variant][a.tier]
	wide := filledIn(w.t, limits, nets)
	for i, l := range limits {
		if !w.logs[a.addr].mustPass(i, l, at, a.cost, skew) {
			return
		}
		for _, network := range networksOf(a.addr) {
			if !a.life.logs[network].mustPass(i, wide[i], at, a.cost, skew) {
				return
			}
		}
	}
	require.Fail(w.t, "a family under its limit is refused", "%s, cost %d: %s", a.addr, a.cost, a.resp.Header.Get("RateLimit"))
}

func (w *world) step() {
	w.now.advance(time.Duration(w.r.Int64N(int64(300 * time.Millisecond))))
	switch op := w.r.IntN(40); {
	case op == 0:
		w.now.advance(time.Duration(w.r.Int64N(int64(40 * time.Second))))
	case op == 1:
		w.restart(w.r.IntN(len(w.fleet)))
	case op == 2:
		l := w.fleet[w.r.IntN(len(w.fleet))]
		l.variant = 1 - l.variant
		require.NoError(w.t, l.m.Reconfigure(w.config(l)))
	case op == 3:
		w.rotate()
	case op < 6 && w.mode != "honest": // parallel, in one tier: the log knows no order among them
		var group sync.WaitGroup
		attempts := make([]*attempt, 6)
		for i := range attempts {
			attempts[i] = w.attempt()
			attempts[i].tier = attempts[0].tier
		}
		for _, a := range attempts {
			group.Go(a.send)
		}
		group.Wait()
		for _, a := range attempts {
			w.settle(a)
		}
		for _, a := range attempts {
			w.requireReason(a)
		}
	default:
		a := w.attempt()
		a.send()
		w.requireReason(a)
		w.settle(a)
	}
}

// The promise of the whole library, over random traces of requests, dropped,
// replayed, forked, stolen and forged tokens, restarts, changed quotas and
// tiers, rotated secrets, clocks that differ, and requests in parallel.
func TestTraces(t *testing.T) {
	for mode, seeds := range map[string]uint64{"hostile": 10, "skewed": 10, "honest": 10} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed=%d", mode, seed), func(t *testing.T) {
				w := newWorld(t, seed, mode)
				for range 250 {
					w.step()
				}
				require.Greater(t, w.passed, 30, "the workload passes")
				require.Greater(t, w.refused, 10, "and is refused")
				for _, l := range w.fleet {
					require.Zero(t, l.m.Saturations())
				}
			})
		}
	}
}
