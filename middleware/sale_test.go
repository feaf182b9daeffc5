// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// Buying tallies costs what the formula says: counted, hash by hash, for a buyer that always goes
// to the cheapest instance.
func TestOwnTalliesCostTheFormula(t *testing.T) {
	const work, crowd = 512, 8
	for _, n := range []int{1, 3} {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Challenge.Work, cfg.Challenge.Crowd = work, crowd
		var sites []*site
		for range n {
			sites = append(sites, newSite(t, cfg))
		}
		var asked, spent int64
		most := 4 * crowd * n
		for f := 1; f <= most; f++ {
			h := sites[(f-1)/crowd%n] // a Crowd from each, then the next Crowd
			c := challengeIn(t, fetched(h))
			proof, hashes := hashed(t, c)
			require.Equal(t, http.StatusOK, redeemed(h, proof).StatusCode)
			asked, spent = asked+int64(c.Work), spent+hashes
			least := crowd * work * float64(n) * (math.Exp2(float64(f)/float64(n*crowd)) - 1)
			require.GreaterOrEqual(t, float64(asked), least, "%d tallies of %d instances", f, n)
			if f%(crowd*n) == 0 {
				require.InEpsilon(t, 1.44*least, float64(asked), 0.04, "a straight line between doublings is above the curve, and Crowds are bought one by one")
				t.Logf("%d instances: %2d tallies: formula %6.0f, asked %6d, counted %6d hashes", n, f, least, asked, spent)
			}
		}
		require.InEpsilon(t, asked, spent, 0.25, "the price is what solving takes, on average")
		for _, h := range sites {
			require.EqualValues(t, 16*work, challengeIn(t, fetched(h)).Work)
		}
	}
}

// hourly buys as many tallies below a price as can be had in a number of steps of time.
func hourly(t *testing.T, h http.Handler, now *clock, most uint64, steps int, step time.Duration) (sales []time.Duration) {
	for i := range steps {
		for {
			c := challengeIn(t, fetched(h))
			if c.Work > most {
				break
			}
			require.Equal(t, http.StatusOK, redeemed(h, solve(t, c)).StatusCode)
			sales = append(sales, time.Duration(i)*step)
		}
		now.Advance(step)
	}
	return sales
}

// Whenever one looks: below a price of 16 W four Crowds are sold at once, and then as many
// as leak, whatever the Crowd.
func TestLeakHoldsInEverySpan(t *testing.T) {
	for _, crowd := range []int64{1, 2, 9} {
		now := new(clock)
		cfg := challenging(now, middleware.Newcomers)
		cfg.Challenge.Crowd, cfg.Challenge.SalesPerHour = crowd, 480
		sales := hourly(t, newSite(t, cfg), now, 16*16, 400, 3*time.Second)
		for i, first := range sales {
			for n, later := range sales[i:] {
				require.LessOrEqual(t, float64(n), float64(4*crowd)+1+8*(later-first).Minutes(), "from %s to %s", first, later)
			}
		}
		require.Greater(t, len(sales), 8*19, "and they go on being sold")
	}
}

// The price rises behind an IPv6 /56 and a /48 as well, as for the number of addresses that each
// counts for. The price of one network is not asked in another.
func TestNetworksBuyToo(t *testing.T) {
	for _, test := range []struct {
		name  string
		addr  func(i int) string
		crowd int // tallies until the price doubles
	}{
		{"/64", func(int) string { return "2001:db8::1" }, 2},
		{"/56", func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 2 * 2},
		{"/48", func(i int) string { return fmt.Sprintf("2001:db8:0:%x00::1", i) }, 2 * 8},
		{"unrelated", func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }, 1 << 40},
		{"IPv4", func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }, 1 << 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := challenging(new(clock), middleware.Newcomers)
			cfg.MaxClients = 0 // so that no network has its part of what is for sale
			h := newSite(t, cfg)
			for i := range min(60, 5*test.crowd) {
				want := uint64(16)
				if test.crowd < 1<<40 {
					want = priceAfter(i, test.crowd, 16)
				}
				require.Equal(t, want, challengeIn(t, fetched(h, from(test.addr(i)))).Work, "tally %d", i)
				bought(t, h, from(test.addr(i)))
			}
			require.EqualValues(t, 16, challengeIn(t, fetched(h, from("2001:db8:ffff::1"))).Work, "nobody else pays for it")
		})
	}
}

// A buyer stays in mind for as long as the proof, not as the tally: else days of honest newcomers,
// or one patient network, would leave no room for others.
func TestSalesMakeRoomForTheNext(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Quota: 5, Window: 24 * time.Hour}}
	cfg.MaxClients = 256
	h := newSite(t, cfg)
	for i := range 512 {
		addr := from(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
		require.Equal(t, http.StatusOK, redeemed(h, solved(t, fetched(h, addr)), addr).StatusCode, i)
		now.Advance(4 * time.Minute)
	}
	require.Zero(t, h.M.Stats().Saturations)
}

// An honest client behind a shared address: it asks, solves what it is offered, and asks again.
type honest struct {
	token  string
	prices []uint64
	wait   time.Duration // that it was told
}

// ask sends one request, solving until it is admitted or told to wait.
func (c *honest) ask(t *testing.T, h http.Handler) bool {
	resp := send(h, showing(c.token))
	for range 8 {
		if resp.StatusCode == http.StatusOK {
			if tok := tokenIn(resp); tok != "" {
				c.token = tok
			}
			return true
		}
		if resp.Header.Get(middleware.ChallengeHeader) == "" {
			c.wait = retryAfter(t, resp)
			return false
		}
		offer := challengeIn(t, resp)
		c.prices = append(c.prices, offer.Work)
		resp = send(h, showing(c.token), proving(solve(t, offer)))
	}
	return false
}

func (c *honest) price() (last uint64) {
	if len(c.prices) > 0 {
		last = c.prices[len(c.prices)-1]
	}
	return last
}

// Twenty honest clients behind one address, with a Crowd of eight.
func TestHonestCrowd(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		site := func(t *testing.T) (*site, *clock) {
			now := new(clock)
			return newSite(t, changed(challenging(now, mode), func(cfg *middleware.Config) { cfg.Challenge.Work, cfg.Challenge.Crowd = 64, 8 })), now
		}
		t.Run(name+"/beside one that floods without solving", func(t *testing.T) {
			h, now := site(t)
			clients := make([]honest, 20)
			var highest uint64
			for i := range clients {
				admitted(h, 50) // the flood: all that can be had for nothing
				for range 3 {
					require.True(t, clients[i].ask(t, h), "client %d", i)
				}
				highest = max(highest, clients[i].price())
			}
			require.LessOrEqual(t, highest, priceAfter(19, 8, 64), "five and a half times the base price")
			for range 10 { // and so it goes on, without another purchase
				now.Advance(time.Minute)
				for i := range clients {
					admitted(h, 20)
					paid := len(clients[i].prices)
					require.True(t, clients[i].ask(t, h))
					require.Len(t, clients[i].prices, paid, "what was bought lasts")
				}
			}
			t.Logf("the last of 20 paid %d times the base price", highest/64)
		})
		t.Run(name+"/all at once", func(t *testing.T) {
			h, _ := site(t)
			exhaustIn(t, mode, h)
			clients := make([]honest, 20)
			inParallel(len(clients), func(i int) {
				if !clients[i].ask(t, h) {
					t.Error("not admitted")
				}
			})
			var highest, most uint64
			for i := range clients {
				total := uint64(0)
				for _, price := range clients[i].prices {
					total += price
				}
				highest, most = max(highest, clients[i].price()), max(most, total)
			}
			require.LessOrEqual(t, highest, priceAfter(19, 8, 64))
			require.LessOrEqual(t, most, uint64(11*64), "with what was solved in vain as the price rose")
			t.Logf("of 20 at once the unluckiest paid %d times the base price in all", most/64)
		})
		t.Run(name+"/beside one that also buys", func(t *testing.T) {
			h, _ := site(t)
			exhaustIn(t, mode, h)
			greedy := func(n int) {
				for range n {
					var c honest
					c.ask(t, h)
				}
			}
			clients := make([]honest, 20)
			through := 0
			for i := range clients {
				greedy(1)
				if clients[i].ask(t, h) {
					through++
				}
			}
			require.Equal(t, 20, through, "all")
			t.Logf("the last of 20 paid %d times the base price", clients[19].price()/64)
		})
	}
}

func TestSales(t *testing.T) {
	pro := with("Tier", "pro")
	planted := func(name string) func(*scene) { // a tally that another client has bought and spent
		return func(s *scene) {
			thief := from("198.51.100.66")
			tok := bought(s, s.at(0), thief)
			for range 5 {
				tok = tokenIn(send(s.at(0), showing(tok), thief))
			}
			s.tokens[name] = tok
		}
	}
	pays := step{show: "shared", cookie: "own", want: 200, keep: "own", see: all{own, func(s *scene) {
		require.NotEmpty(s, claimsIn(s, cookieIn(s.last).Value).Fam)
	}}}
	scenarios := []scenario{
		// The price belongs to the policy and the address; the first token is the same bytes whatever the tier.
		{"tiers have one price", working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Tiers, cfg.Identity = map[string][]middleware.Limit{"pro": {fixed(50, time.Minute)}}, byTier(middleware.PeerAddress)
		}), []step{
			{as: both(pro, toFetch), want: 200, keep: "offer"}, {as: both(pro, toRedeem), prove: "offer", want: 200, keep: "own"},
			{as: toRedeem, prove: "offer", want: 200, see: all{same("own")}},
			{show: "own", times: 9, passes: 5}, {as: pro, show: "own", times: 60, passes: 45}, // a client that changes tier keeps its count
			{do: buys("another", pro), as: toFetch, want: 200, see: all{work(32)}}, // two were sold to the address
		}},
		// The first instance has sold, the other has not.
		{"a risen price is charged at redemption", working(middleware.Newcomers, func(cfg *middleware.Config) { cfg.Challenge.Crowd = 1 }), []step{
			{do: buys("a")}, {do: buys("b")}, {on: 1, as: toFetch, want: 200, keep: "cheap"},
			{as: toRedeem, prove: "cheap", want: 403, keep: "dear", see: all{because("price-risen"), work(4 * 16)}},
			{on: 1, as: toRedeem, prove: "cheap", want: 200}, // where it is worth its price
			{as: toRedeem, prove: "dear", want: 200},
		}},
		{"a spent shared token in the field hides no own one in the cookie", working(middleware.WhenExhausted), []step{
			{times: 5, show: latest, want: 200, keep: "shared"}, {do: buys("own")}, pays, pays, pays, pays, pays, {show: "shared", cookie: "own", want: 429},
		}},
		{"a client whose pass is used up is told when the shared tally gives way", working(middleware.WhenExhausted, limits(fixed(48, 24*time.Hour)), func(cfg *middleware.Config) {
			cfg.Challenge.Crowd, cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom = 1, 24*time.Hour-time.Second, true
		}), []step{
			{times: 60, passes: 48}, {do: buys("own"), show: "own", times: 60, passes: 48}, // rounded up
			{show: "own", want: 429, keep: "offer", see: all{shared, func(s *scene) {
				require.NotEmpty(s, s.challenges["offer"].Text)
				require.GreaterOrEqual(s, retryAfter(s, s.last), 23*time.Hour)
			}}},
		}},
		{"a spent own token hides no shared quota", working(middleware.WhenExhausted), []step{
			{do: planted("spent"), show: "spent", times: 9, passes: 5}, {as: from("203.0.113.2"), cookie: "spent", times: 9, passes: 5},
		}},
		{"another client's shared token takes nothing", working(middleware.WhenExhausted), []step{
			{as: from("198.51.100.66"), times: 5, show: latest, want: 200, keep: "stolen"}, {show: "stolen", cookie: "stolen", times: 9, passes: 5},
		}},
	}
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		scenarios = append(scenarios, scenario{"three spent own tokens hide no fresh one/" + name, working(mode), []step{
			{do: planted("1")}, {do: planted("2")}, {do: planted("3")}, exhausting(mode),
			{do: buys("mine"), show: "1 2", cookie: "3 mine", times: 9, passes: 5},
		}}, scenario{"a proof is worth more than a spent own token, and takes its place/" + name, working(mode), []step{
			{do: planted("spent")}, exhausting(mode), {cookie: "spent", want: 429, keep: "offer"},
			{cookie: "spent", prove: "offer", want: 200, see: all{func(s *scene) {
				require.NotEqual(s, claimsIn(s, s.tokens["spent"]).Fam, claimsIn(s, cookieIn(s.last).Value).Fam)
			}}},
		}})
	}
	play(t, scenarios)
}

// A life of two of the longest windows that are not above PassTime, an hour at least,
// from the second of issue on whatever instance's clock.
func TestLifeOfAnOwnTally(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct{ window, memory, life time.Duration }{{time.Minute, 0, time.Hour}, {time.Hour, 0, 2 * time.Hour}, {day, 0, time.Hour}, {day, day, 2 * day}} {
		play(t, []scenario{{fmt.Sprint(test.window, test.memory), working(middleware.Newcomers, func(cfg *middleware.Config) {
			cfg.Limits[0].Quota, cfg.Limits[0].Window, cfg.Challenge.PassTime = 120, test.window, test.memory
		}), []step{
			{do: buys("own"), show: "own", want: 200, keep: "newest"},
			{show: "newest", want: 200, keep: "newest", see: all{func(s *scene) {
				require.Equal(s, claimsIn(s, s.tokens["own"]).Exp, claimsIn(s, s.tokens["newest"]).Exp, "use does not prolong it")
			}}},
			{after: test.life - time.Nanosecond, show: "newest", want: 200},
			{after: time.Nanosecond, show: "newest", want: 403, see: all{err(token.ErrExpired)}},
		}}})
	}
}

// A challenge of one instance is redeemed on another whose clock is two seconds behind, for the same bytes.
func TestClocksOfInstancesDiffer(t *testing.T) {
	ahead, behind := new(clock), new(clock)
	for _, skew := range []time.Duration{0, time.Second, 2 * time.Second} {
		ahead.Offset.Store(int64(skew))
		a := newSite(t, challenging(ahead, middleware.Newcomers))
		b := newSite(t, challenging(behind, middleware.Newcomers))
		proof := solved(t, fetched(a))
		there, here := redeemed(a, proof), redeemed(b, proof)
		require.Equal(t, http.StatusOK, here.StatusCode, fmt.Sprint(skew))
		require.Equal(t, tokenIn(there), tokenIn(here))
		require.Equal(t, http.StatusOK, send(b, showing(tokenIn(there))).StatusCode)
	}
	ahead.Offset.Store(int64(3 * time.Second))
	a, b := newSite(t, challenging(ahead, middleware.Newcomers)), newSite(t, challenging(behind, middleware.Newcomers))
	require.Equal(t, middleware.Reason("clock-differs"), problemIn(t, redeemed(b, solved(t, fetched(a)))).Reason)
}

// The price that rises stays one that slow phones can pay before it expires.
func TestThreatOfSlowPhones(t *testing.T) {
	t.Run("T28", func(t *testing.T) {
		const rate = 75_000 // hashes a second, a browser without a JIT
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Challenge.Work, cfg.Challenge.Crowd = pow.DefaultWork, 8
		h := newSite(t, cfg)
		c := challengeIn(t, send(h))
		worst := time.Duration(2 * c.Work * uint64(time.Second) / rate)
		require.LessOrEqual(t, worst+2*time.Second, c.TTL, "at the base price none misses it: the worst case fits, with two seconds for the network")
		for _, factor := range []int64{2, 4, 8, 16, 32} { // what the crowd of an address pays
			cfg.Challenge.Work = factor * pow.DefaultWork
			c := challengeIn(t, send(newSite(t, cfg)))
			require.LessOrEqual(t, time.Duration(2*c.Work*uint64(time.Second)/rate)+time.Second, c.TTL, "%d times the base price", factor)
		}
		cfg.Challenge.Work = 1 << 28
		require.Equal(t, 5*time.Minute, challengeIn(t, send(newSite(t, cfg))).TTL, "and no answer is good for longer")
		cfg.Challenge.Mode = middleware.EveryRequest
		require.Equal(t, time.Minute, challengeIn(t, send(newSite(t, cfg))).TTL, "the price does not rise there")
	})
}

// A greedyBuyer is one client behind one address that buys every tally for up to four
// times the first one's price, and uses each to the last request.
type greedyBuyer struct {
	t    *testing.T
	h    *site
	now  *clock
	work uint64            // the first price
	held map[string]string // the newest token of each tally that is alive, by its id
}

// buy buys all that it can pay, and returns how many tallies that was.
func (b *greedyBuyer) buy() (tallies int) {
	for {
		c := challengeIn(b.t, fetched(b.h))
		if c.Work > 4*b.work {
			return tallies
		}
		resp := redeemed(b.h, solve(b.t, c))
		require.Equal(b.t, http.StatusOK, resp.StatusCode)
		b.held[claimsIn(b.t, tokenIn(resp)).Fam] = tokenIn(resp)
		tallies++
	}
}

// spend sends what each tally, and the shared one, admits at this moment.
func (b *greedyBuyer) spend() (passed int) {
	for send(b.h).StatusCode == http.StatusOK {
		passed++
	}
	for id, tok := range b.held {
		if claimsIn(b.t, tok).Exp <= b.now.Now().Unix() {
			delete(b.held, id)
			continue
		}
		for {
			resp := send(b.h, showing(tok))
			if resp.StatusCode != http.StatusOK {
				break
			}
			passed++
			if next := tokenIn(resp); claimsIn(b.t, next).Fam == id {
				tok = next
			}
		}
		b.held[id] = tok
	}
	return passed
}

// A day's quota is not for sale every hour: what a tally is worth is a pass, on the third day as on the first. (When
// a tally had the whole quota and lived for two days, this buyer had 19,250, 37,295 and 45,744 requests of 50 a day.)
func TestThreeDaysOfBuying(t *testing.T) {
	pause := 5 * time.Minute
	if kit.Brief() {
		pause = time.Hour
	}
	minute := middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute}
	day := middleware.Limit{Name: "day", Quota: 50, Window: 24 * time.Hour}
	for name, test := range map[string]struct {
		limits []middleware.Limit
		pass   int
	}{
		"50 a day":                 {[]middleware.Limit{day}, 3},
		"5 a minute and 50 a day":  {[]middleware.Limit{minute, day}, 5},
		"50 a day, a fixed window": {[]middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}, 3},
		"50 a day, a bucket":       {[]middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 50, Window: 24 * time.Hour}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits, cfg.Challenge.Crowd, cfg.Challenge.NoWaitingRoom = test.limits, 8, true
			b := &greedyBuyer{t, newSite(t, cfg), now, uint64(cfg.Challenge.Work), map[string]string{}}
			shared := &greedyBuyer{t, newSite(t, cfg), now, 0, nil} // what the address has for nothing
			for day := 1; day <= 3; day++ {
				tallies, passed, free := 0, 0, 0
				for range 24 {
					tallies += b.buy()
					for range time.Hour / pause {
						passed += b.spend()
						free += shared.spend()
						now.Advance(pause)
					}
				}
				t.Logf("day %d: %d tallies, %d requests admitted", day, tallies, passed)
				require.Equal(t, tallies*test.pass+free, passed, "day %d: %d tallies of %d requests", day, tallies, test.pass)
			}
		})
	}
}

// priced takes the cost and the tier of a request from the request.
func priced(cfg *middleware.Config) {
	cfg.Cost = costOf
	cfg.Identity = byTier(middleware.PeerAddress)
}

func query(q string) option { return func(r *http.Request) { r.URL.RawQuery = q } }

// Whatever is shown to whichever instance, none admits more to an own tally in its life
// than the pass of the tier states: over random traces of clients that echo, drop, roll back
// and fork, with restarts, tiers and boundaries of the day.
func TestPassTraces(t *testing.T) {
	seeds := uint64(60)
	if kit.Brief() {
		seeds = 12
	}
	full := 0
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r, now := random(seed), new(clock)
			algorithm := []storeless.Algorithm{storeless.SlidingWindow, middleware.FixedWindow, middleware.TokenBucket}[r.IntN(3)]
			// A minute's limit or none, and the day's; what a pass has in each tier.
			limits := func(minute, day int64) (l []middleware.Limit, pass int64) {
				pass = (day + 23) / 24
				if seed%2 == 0 {
					l = append(l, fixed(minute, time.Minute))
					pass = max(pass, minute)
				}
				return append(l, middleware.Limit{Name: "day", Algorithm: algorithm, Quota: day, Window: 24 * time.Hour}), pass
			}
			cfg := challenging(now, []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers}[r.IntN(2)])
			cfg.Challenge.Crowd, cfg.TokenTransport = 8, middleware.HeaderOnly
			passes := map[string]int64{}
			cfg.Limits, passes[""] = limits(3+r.Int64N(5), 20+r.Int64N(300))
			var pro []middleware.Limit
			pro, passes["pro"] = limits(8+r.Int64N(5), 400+r.Int64N(300))
			cfg.Tiers = map[string][]middleware.Limit{"pro": pro}
			priced(&cfg)

			fleet, counts := make([]*site, 1+r.IntN(3)), make([]map[string]int64, 3)
			start := func(i int) { fleet[i], counts[i] = newSite(t, cfg), map[string]int64{} }
			for i := range fleet {
				start(i)
			}
			now.Advance(24*time.Hour - time.Duration(r.Int64N(int64(time.Hour))))
			tiers := []string{"", "", "pro"}
			if algorithm == middleware.TokenBucket {
				// A bucket's debt is time: what a faster tier has admitted is worth less of
				// it, and no number of requests bounds a mix of tiers.
				tiers = []string{tiers[r.IntN(len(tiers))]}
			}
			tokens, used := []string{}, 0
			for range 1000 {
				i, tier := r.IntN(len(fleet)), tiers[r.IntN(len(tiers))]
				switch op := r.IntN(100); {
				case op == 0:
					start(i)
				case op < 4:
					now.Advance(time.Duration(r.Int64N(int64(6 * time.Minute))))
				case op < 5 && fetched(fleet[i]).StatusCode == http.StatusOK:
					tokens = append(tokens, bought(t, fleet[i], with("Tier", tier)))
				case len(tokens) > 0:
					shown := tokens[len(tokens)-1]
					if r.IntN(3) == 0 {
						shown = tokens[r.IntN(len(tokens))]
					}
					cost := 1 + r.Int64N(2)
					resp := send(fleet[i], showing(shown), with("Tier", tier), costing(cost))
					if resp.StatusCode != http.StatusOK || !fleet[i].Decisions.Last().Own {
						continue
					}
					claims := claimsIn(t, tokenIn(resp))
					require.Less(t, now.Now().Unix(), claims.Exp)
					tokens = append(tokens, tokenIn(resp))
					counts[i][claims.Fam] += cost
					require.LessOrEqual(t, counts[i][claims.Fam], passes[tier], "tier %q of %v", tier, passes)
					used++
					if counts[i][claims.Fam] == passes[tier] {
						full++
					}
				}
			}
			require.Positive(t, used)
		})
	}
	require.Greater(t, full, int(seeds), "passes are used up")
}

// An own tally's answers tell the numbers of its pass, wherever they stand, and the shared tally's
// answers tell its own.
func TestPassIsTold(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.WhenExhausted)
	cfg.Limits = []middleware.Limit{fixed(5, time.Minute), {Name: "day", Algorithm: middleware.FixedWindow, Quota: 480, Window: 24 * time.Hour}}
	cfg.Challenge.NoWaitingRoom, cfg.Fields = true, middleware.RateLimitFields|middleware.XRateLimitInSeconds
	cfg.Limits[0].Quota = 50
	h := newSite(t, cfg)
	resp := send(h)
	require.Equal(t, `"contact";q=50;w=60, "day";q=480;w=86400`, resp.Header.Get("RateLimit-Policy"))
	require.EqualValues(t, 480, h.Decisions.Last().Limits()[1].Quota)

	cfg.Challenge.Mode, cfg.Limits[0].Quota = middleware.Newcomers, 4
	h = newSite(t, cfg)
	const field = `"contact";q=4;w=60, "day";q=20;w=86400`
	resp = requireStatus(t, http.StatusForbidden, send(h))
	require.Equal(t, field, resp.Header.Get("RateLimit-Policy"), "what there is to buy")
	tok := bought(t, h)
	now.Advance(30 * time.Minute)
	for i := range 5 {
		now.Advance(time.Minute)
		for j := range 4 {
			resp = requireStatus(t, http.StatusOK, send(h, showing(tok)))
			require.Equal(t, field, resp.Header.Get("RateLimit-Policy"))
			tok = tokenIn(resp)
			left := 19 - 4*i - j
			require.Contains(t, resp.Header.Get("RateLimit"), fmt.Sprintf(`"day";r=%d;t=%d`, left, (29-i-1)*60+60))
			require.EqualValues(t, left, h.Decisions.Last().Limits()[1].Remaining)
			require.EqualValues(t, 20, h.Decisions.Last().Limits()[1].Quota)
		}
	}
	require.Equal(t, "20", resp.Header.Get("X-RateLimit-Limit"), "the tightest is the day's")
	now.Advance(time.Minute)
	require.Contains(t, bodyOf(t, fetched(h, showing(tok))), `{"needed":true,"left":0,`)
	resp = requireStatus(t, http.StatusTooManyRequests, send(h, showing(tok)))
	require.Equal(t, "20", resp.Header.Get("X-RateLimit-Limit"))
	require.Equal(t, []string{"day"}, problemIn(t, resp).Violated)
	challengeIn(t, resp)
	wait := retryAfter(t, resp)
	require.GreaterOrEqual(t, wait, 24*time.Minute, "the end of the tally")
	require.LessOrEqual(t, wait, 24*time.Minute+150*time.Second)
	now.Advance(wait)
	require.Equal(t, http.StatusForbidden, send(h, showing(tok)).StatusCode, "and then there is the next to buy")
}

// What costs more than any pass has is charged to the shared tally of a client that has
// one of its own: no client is locked out, and no work is asked for that would not help.
func TestRequestsThatCostMoreThanAPass(t *testing.T) {
	dear, setup := costing(20), func(mode middleware.Mode) setup {
		return working(mode, limits(fixed(50, 24*time.Hour)), priced, func(cfg *middleware.Config) { cfg.Challenge.NoWaitingRoom = true })
	}
	common := []step{
		{as: dear, show: "own", want: 200, see: all{shared, remain(10)}},
		{as: dear, show: "own", want: 429, see: all{noChallenge, func(s *scene) {
			require.Equal(s, 24*time.Hour, retryAfter(s, s.last).Truncate(time.Hour), "it passes then")
		}}},
		{as: both(toFetch, query("cost=20")), show: "own", want: 429, see: all{noChallenge}}, {as: both(toFetch, query("cost=10")), show: "own", want: 200},
		{as: costing(51), show: "own", want: 403, reason: middleware.CostAboveQuota}, {as: costing(3), show: "own", want: 200, see: all{own}}, // its own is untouched
	}
	play(t, []scenario{
		{"Newcomers", setup(middleware.Newcomers), append([]step{
			{as: dear, want: 403, keep: "offer"},
			{as: dear, prove: "offer", want: 200, keep: "own", see: all{shared, func(s *scene) { require.NotEmpty(s, claimsIn(s, s.tokens["own"]).Fam, "what it has paid for") }}},
		}, common...)},
		{"WhenExhausted", setup(middleware.WhenExhausted), append([]step{{do: buys("own"), as: dear, want: 200}}, common...)},
	})
}

// Tokens of one pass side by side say all that was used of it, also what was used before
// midnight. An instance that has never met the pass has nothing else to go by.
func TestTokensOfAPassSideBySide(t *testing.T) {
	for _, algorithm := range []storeless.Algorithm{middleware.FixedWindow, storeless.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Limits = []middleware.Limit{{Algorithm: algorithm, Quota: 3 * 24, Window: 24 * time.Hour}}
			now.Advance(24*time.Hour - time.Minute)
			h := newSite(t, cfg)
			tokens := []string{bought(t, h)}
			for range 3 {
				resp := requireStatus(t, http.StatusOK, send(h, showing(tokens[len(tokens)-1])))
				tokens = append(tokens, tokenIn(resp))
			}
			newest, older, first := tokens[3], tokens[2], tokens[0]
			now.Advance(2 * time.Minute)
			for _, shown := range [][]string{{newest}, {newest, older}, {older, newest}, {first, older, newest}} {
				require.Zero(t, admitted(newSite(t, cfg), 3, showing(shown...)), "%d tokens", len(shown))
			}
		})
	}
}

// Whatever is changed, and changed back: a bought tally has what it was sold with, once.
func TestReconfigureForgetsNothingThatWasSold(t *testing.T) {
	day := middleware.Limit{Name: "day", Quota: 50, Window: 24 * time.Hour}
	minute := middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute}
	mode := func(mode middleware.Mode) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			challenge := *cfg.Challenge
			challenge.Mode = mode
			if mode == middleware.WhenBusy {
				challenge.BusyAtOnce = 1000
			}
			cfg.Challenge = &challenge
		}
	}
	changes := map[string]func(*middleware.Config){
		"nothing":           func(*middleware.Config) {},
		"no challenge":      func(cfg *middleware.Config) { cfg.Challenge = nil },
		"every request":     mode(middleware.EveryRequest),
		"newcomers":         mode(middleware.Newcomers),
		"when busy":         mode(middleware.WhenBusy),
		"no memory":         func(cfg *middleware.Config) { cfg.InsecureNoMemory = true; cfg.Challenge = nil },
		"another secret":    func(cfg *middleware.Config) { cfg.Secrets = [][]byte{secret("b"), secret("a")} },
		"other limits":      func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{fixed(9, time.Hour)} },
		"another order":     func(cfg *middleware.Config) { cfg.Limits = []middleware.Limit{day, minute} },
		"a longer memory":   func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = 3 * time.Hour; cfg.Challenge = &c },
		"a shorter memory":  func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = time.Minute; cfg.Challenge = &c },
		"a memory of a day": func(cfg *middleware.Config) { c := *cfg.Challenge; c.PassTime = 24 * time.Hour; cfg.Challenge = &c },
		"another price":     func(cfg *middleware.Config) { c := *cfg.Challenge; c.Crowd, c.SalesPerHour = 99, 1; cfg.Challenge = &c },
		"instances":         func(cfg *middleware.Config) { cfg.Instances = 10 },
		"a tier":            func(cfg *middleware.Config) { cfg.Tiers = map[string][]middleware.Limit{"pro": cfg.Limits} },
		"a customer": func(cfg *middleware.Config) {
			cfg.LimitsFor = patiently(func(context.Context, middleware.Identity) ([]middleware.Limit, error) {
				return []middleware.Limit{minute, {Name: "day", Quota: 60, Window: 24 * time.Hour}}, nil
			})
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits, cfg.Challenge.NoWaitingRoom = []middleware.Limit{minute, day}, true
			if name == "a customer" {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("k"), nil }
			}
			changed := cfg
			change(&changed)
			r := newSite(t, cfg)
			fresh, used := bought(t, r), bought(t, r)
			require.EqualValues(t, 5, r.Uses(used, 8), "5 in all")
			for range 4 {
				r.To(t, changed)
				admitted(r, 3, showing(used))
				now.Advance(time.Second)
				r.To(t, cfg)
				require.Zero(t, r.Uses(used, 8))
			}
			now.Advance(40 * time.Minute)
			r.To(t, changed)
			r.To(t, cfg)
			require.Zero(t, r.Uses(used, 8), "nor in another window")
			require.EqualValues(t, 5, r.Uses(fresh, 8), "what is not used is still there")
			require.Zero(t, r.Uses(fresh, 8))
		})
	}
}

// What was sold lives as long as it was sold for, and what it has used is known for as long.
func TestPassTimeChangesNothingThatWasSold(t *testing.T) {
	for name, row := range map[string]struct {
		sold, then    time.Duration
		first, second int64
		lives         time.Duration
	}{
		"longer":         {time.Hour, 24 * time.Hour, 3, 47, time.Hour},
		"shorter":        {24 * time.Hour, time.Hour, 50, 0, 48 * time.Hour},
		"not used":       {24 * time.Hour, time.Hour, 0, 3, 48 * time.Hour},
		"longer, unused": {time.Hour, 24 * time.Hour, 0, 50, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}
			cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom, cfg.MaxClients = row.sold, true, 1
			r := newSite(t, cfg)
			tok, start := bought(t, r), now.Now()
			require.Equal(t, row.first, r.Uses(tok, int(row.first)))
			challenge := *cfg.Challenge
			challenge.PassTime, cfg.Challenge = row.then, &challenge
			r.To(t, cfg)
			require.Equal(t, row.second, r.Uses(tok, 60))
			for now.Now().Sub(start) < row.lives-31*time.Minute {
				now.Advance(30 * time.Minute)
				for i := range 2 { // others take the cells of the dead
					other := from(fmt.Sprintf("198.51.100.%d", i))
					require.Equal(t, 1, admitted(r, 1, other, showing(bought(t, r, other))))
					require.True(t, r.Decisions.Last().Own)
				}
				require.Zero(t, r.Uses(tok, 2), "it has been used up %s ago", now.Now().Sub(start))
				require.Equal(t, http.StatusForbidden, send(r).StatusCode)
				require.Equal(t, http.StatusTooManyRequests, send(r, showing(tok)).StatusCode, "it lives")
			}
			now.Advance(31 * time.Minute)
			require.Equal(t, http.StatusForbidden, send(r, showing(tok)).StatusCode, "it has lived")
		})
	}
}

// What a pass has used is known for as long as it lives, though those live shorter that are sold
// by now, and though these would have had its cell.
func TestAPassIsRememberedForItsOwnLife(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}
	cfg.MaxClients, cfg.Challenge.Crowd, cfg.Challenge.NoWaitingRoom = 1, 255, true
	cfg.Challenge.PassTime = 24 * time.Hour
	r := newSite(t, cfg)
	tok := bought(t, r)
	challenge := *cfg.Challenge
	challenge.PassTime, cfg.Challenge = time.Hour, &challenge
	r.To(t, cfg)
	require.EqualValues(t, 3, r.Uses(tok, 5))
	now.Advance(2 * time.Hour)
	for range 16 { // as many as there are cells
		require.EqualValues(t, 1, r.Uses(bought(t, r), 1))
		now.Advance(time.Minute)
	}
	require.Zero(t, r.Uses(tok, 5))
}

// Requests that come while the challenge goes off and on are decided by one or the other, and
// requests of a bought tally that are under way are not forgotten.
func TestReconfigureWhileBoughtTalliesAreUsed(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 100, Window: 24 * time.Hour}}
	cfg.Challenge.PassTime, cfg.Challenge.NoWaitingRoom = 24*time.Hour, true
	off := cfg
	off.Challenge = nil
	r := newSite(t, cfg)
	tok := bought(t, r)
	inParallel(5, func(n int) {
		if n > 0 {
			admitted(r, 100, showing(tok))
			return
		}
		for i := range 40 {
			next := []middleware.Config{off, cfg}[i%2]
			r.Decisions.Hear(&next)
			if err := r.M.Reconfigure(next); err != nil {
				t.Error(err)
			}
		}
	})
	r.To(t, cfg)
	admitted(r, 200, showing(tok))
	require.Len(t, slices.DeleteFunc(r.Decisions.All, func(d middleware.Decision) bool { return !d.Own || !d.Allowed || d.Cost == 0 }), 100)
}
