// SPDX-License-Identifier: Apache-2.0

package price

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/players"
	"github.com/tallystick/tallystick/proof/truth"
)

// A proof takes its work on average, twice that at most, and at least a hash a puzzle.
func TestHashes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sum int64
	const proofs = 10_000
	for range proofs {
		n := hashes(r, work)
		require.LessOrEqual(t, n, int64(2*work))
		require.GreaterOrEqual(t, n, int64(puzzles))
		sum += n
	}
	require.InEpsilon(t, work, sum/proofs, 0.01)
}

// As many come as were asked for, on every day, most of them in the evening, half of them
// on phones, in the order of time.
func TestArrivals(t *testing.T) {
	list := arrivals(random(5000, 0), days, 5000, 0)
	require.Len(t, list, days*5000)
	phones, night, evening, last := 0, 0, 0, int64(0)
	for _, n := range list {
		require.GreaterOrEqual(t, n.arrives, last)
		last = n.arrives
		if n.kind == phone {
			phones++
		}
		switch n.arrives % day / hour {
		case 3:
			night++
		case 20:
			evening++
		}
	}
	require.Less(t, last, days*day)
	require.InEpsilon(t, len(list)/2, phones, 0.05)
	require.InEpsilon(t, 8*night, evening, 0.2)
}

// A newcomer solves until its patience ends, and not after.
func TestPatience(t *testing.T) {
	for patience, in := range map[int64]int64{10 * second: 1, 1: 0} {
		s := &street{counters: []counter{open(usual, oneAddress)}, balance: byAddress, random: random(1, 0), patience: patience}
		s.list = []newcomer{{arrives: day}}
		var got fared
		s.run(2, &got)
		require.Equal(t, fared{came: [2]int64{desktop: 1}, in: [2]int64{desktop: in}}, got)
	}
}

func TestPercent(t *testing.T) {
	require.Equal(t, "0/67", fared{came: [2]int64{phone: 3}, in: [2]int64{phone: 2}}.String())
	require.Equal(t, "100/0", fared{came: [2]int64{desktop: 7}, in: [2]int64{desktop: 7}}.String())
}

// priceAt is what a newcomer from there is asked for.
func priceAt(t *testing.T, c *players.Attacker, peer string) int64 {
	offered, ok := c.Ask(fleet.Request{From: peer}).Challenge()
	require.True(t, ok)
	return int64(offered.Work)
}

// sellerOf is a client of one till.
func sellerOf(c middleware.Challenge) *players.Attacker {
	return &players.Attacker{Fleet: openTills(1, c)[0].(*till).Moved}
}

// What is simulated is what users get: the middleware with its defaults asks newcomers for what a
// stall of the simulation does, whatever was bought before, and when.
func TestDefaultsAreTheMiddlewares(t *testing.T) {
	require.EqualValues(t, work, priceAt(t, sellerOf(middleware.Challenge{}), "192.0.2.1:1"))

	const cheap = work / 64 // so that the test does not compute for long
	type visitor struct {
		peer   string
		buyers func(s *stall) []sale.Buyer
	}
	v4 := visitor{"192.0.2.1:1", func(s *stall) []sale.Buyer { return s.v4(0) }}
	v6 := func(peer string, n int64) visitor {
		return visitor{peer, func(s *stall) []sale.Buyer { return s.v6(n) }}
	}
	for name, scene := range map[string]struct {
		sales    int
		visitors []visitor // the first one buys
	}{
		"an address": {sales: 12, visitors: []visitor{v4}},
		"networks": {sales: 12, visitors: []visitor{v6("[2001:db8:0:101::1]:1", 0x101), v6("[2001:db8:0:102::1]:1", 0x102),
			v6("[2001:db8:0:201::1]:1", 0x201)}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := sellerOf(middleware.Challenge{Work: cheap}), open(usual, oneAddress)
			now, buyer := int64(0), scene.visitors[0]
			same := func(when string) {
				for _, v := range scene.visitors {
					require.InEpsilon(t, s.price(now, v.buyers(s)), priceAt(t, c, v.peer)*work/cheap, 0.01, "%s: %s", when, v.peer)
				}
			}
			for range scene.sales {
				same("while it buys")
				proof := c.Solve(c.Ask(fleet.Request{From: buyer.peer}))
				require.True(t, c.Ask(fleet.Request{From: buyer.peer, Proof: proof}).Admitted())
				require.True(t, s.redeem(now, buyer.buyers(s), s.price(now, buyer.buyers(s))))
			}
			same("after it has bought")
			for range 3 {
				now += 5 * minute
				c.Fleet.(*fleet.Moved).Advance(5 * time.Minute)
				same("later")
			}
		})
	}
}

func TestMain(m *testing.M) {
	kit.CollectLess()
	os.Exit(m.Run())
}

// The tables of the page are those that this code makes. The quick rows are made anew in
// every run, all of them where time does not matter. The first row has what of prices has changed.
func TestPrintedTables(t *testing.T) {
	for _, table := range Tables() {
		t.Run(table.Name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, table.Compare("../../..", func(i int) bool {
				return (i == 0 || !kit.Brief()) && (table.Rows[i].Quick || kit.Long())
			}))
		})
	}
}

// What a day is worth: at the defaults, 5/min + 50/day, ten hours of a core buy less than two hundred times the quota
// of the day, which is twice what they buy with a Crowd of 8.
func TestWorthOfADay(t *testing.T) {
	u := uses()[0]
	require.Equal(t, int64(5), u.admitted(0, day), "a tally is a pass for an hour")
	for n, twice := range map[int64]int64{1: 2 * 880, 3: 2 * 2616, 10: 2 * 8581} {
		requests := n * raids(oneAddress, purses[2]/n, day, u.admitted)
		require.LessOrEqual(t, requests, 5*twice)
		require.GreaterOrEqual(t, requests, 5*twice*8/10, "the plans are good ones: the leak and some crowds")
	}
}

// Whatever the plan, an instance sells no more than the bound says.
func TestPlansStayBelowTheBound(t *testing.T) {
	for _, lasts := range []int64{hour, day} {
		for _, purse := range purses {
			t.Run(fmt.Sprint(lasts/hour, " h, ", purse/core, " s"), func(t *testing.T) {
				bound := truth.Tariff{Work: work, Crowd: expected, Leak: leak}.Most(purse, lasts/second)
				bought := raids(oneAddress, purse, lasts, aTally)
				require.LessOrEqual(t, bought, bound)
				require.Greater(t, bought, min(bound, purse/work)*8/10, "and the plans come near")
			})
		}
	}
}

// Without an attacker, 500 newcomers a day get in behind one address.
func TestNewcomersGetIn(t *testing.T) {
	for _, daily := range []int64{20, 100, 500} {
		for _, patience := range []int64{10, 60} {
			g := siege{oneAddress, daily, patience * second, 0, 1}
			c := g.fared()
			require.GreaterOrEqual(t, c.percent(desktop), int64(99), "%d a day, %d s", daily, patience)
			require.GreaterOrEqual(t, c.percent(phone), int64(95), "%d a day, %d s", daily, patience)
		}
	}
}

// An attacker with these budgets, which are less than the table says, lets some of the
// victims in. What leaks in an hour is for sale at the price that is held.
func TestAddressIsNotShutForLess(t *testing.T) {
	for name, c := range map[string]struct {
		victims int
		seconds int64
	}{
		"desktops": {desktop, 80},
		"phones":   {phone, 13},
	} {
		t.Run(name, func(t *testing.T) {
			g := siege{oneAddress, 20, 60 * second, 0, 2}
			for _, stock := range []bool{false, true} {
				hourly, shut := g.held(c.victims, c.seconds*vector/leak, stock)
				require.InEpsilon(t, c.seconds*vector, hourly, 0.15, "the budget")
				require.False(t, shut)
			}
		})
	}
}

// A subscriber of a carrier, with any budget, that holds its own price at what a desktop can
// pay, does not shut out those that have other addresses.
func TestSubscribersAreNotShutOut(t *testing.T) {
	for _, p := range []place{subscribers64, subscribers56} {
		g := siege{p, 500, 60 * second, 0, 1}
		c, _ := g.met(attacker{purse: 1 << 60, target: rates[desktop] * 60, stock: true})
		require.GreaterOrEqual(t, c.percent(desktop), int64(95), p.name)
		require.GreaterOrEqual(t, c.percent(phone), int64(90), p.name)
	}
}

// The same seeds make the same numbers, whatever else runs.
func TestRunsAreTheSame(t *testing.T) {
	g := siege{oneAddress, 500, 60 * second, 5 * vector, 1}
	first, again := g.fared(), g.fared()
	require.Equal(t, first, again)
	require.NotZero(t, first.came[desktop]*first.came[phone])
}

// A till is one instance of the middleware with the defaults of what it sells: the same to newcomers as a stall.
type till struct {
	*fleet.Moved
	instance int
}

// openTills starts n. Their waiting rooms are shut, so that every client that gets in has bought.
func openTills(n int, c middleware.Challenge) (all []counter) {
	c.Mode, c.Path, c.NoWaitingRoom = middleware.Newcomers, "/tally/", true
	f := fleet.New(n, middleware.Config{Limits: []middleware.Limit{slide(5, time.Minute)}, Challenge: &c})
	for i := range n {
		all = append(all, &till{f, i})
	}
	return all
}

// serve asks the endpoint of challenges, or shows the endpoint a proof, as the element does. All newcomers come from one address.
func (c *till) serve(now, _ int64, o offer) (bool, offer) {
	c.To(time.Duration(now) * time.Millisecond)
	r := fleet.Request{To: c.instance, From: fleet.V4(0), Method: http.MethodGet, Path: fleet.ChallengePath}
	if o.work > 0 {
		r.Method, r.Path, r.Proof = "", fleet.RedeemPath, answered(o.challenge)
	}
	got := c.Ask(r)
	next, _ := got.Challenge() // the zero one is none
	return o.work > 0 && got.Admitted(), offer{int64(next.Work), next.Text}
}

// answered answers a challenge without the work, which is counted and not done: by the secret, it computes the numbers
// as docs/wire.md says that they are hidden. Small puzzles, as the other simulations have, would live for ten seconds,
// where a phone works for twenty.
func answered(challenge string) string {
	raw, err := base64.RawURLEncoding.DecodeString(challenge)
	key, failed := hkdf.Key(sha256.New, fleet.Secret, nil, "tallystick/pow/num/1", sha256.Size)
	if err != nil || failed != nil || len(raw) < 38 {
		panic(fmt.Sprint("price: no challenge: ", challenge))
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(make([]byte, 4))
	mac.Write(raw[:38])
	sum, span, numbers := mac.Sum(nil), uint64(binary.BigEndian.Uint32(raw[10:])), make([]string, puzzles)
	for i := range numbers {
		numbers[i] = fmt.Sprint(uint64(binary.BigEndian.Uint32(sum[4*i:])) * span >> 32)
	}
	return challenge + "~" + strings.Join(numbers, ".")
}
