// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// busyFrom is contact with WhenBusy, by a rate or by requests under way.
func busyFrom(c *clock, perSecond, atOnce int64) middleware.Config {
	cfg := challenging(c, middleware.WhenBusy)
	cfg.Challenge.BusyPerSecond, cfg.Challenge.BusyAtOnce = perSecond, atOnce
	return cfg
}

// stranger is the address of a new client, in a network of its own.
func stranger(i int) option { return from(fmt.Sprintf("%d.%d.7.1", 20+i>>8, i&255)) }

// strangers sends one request from each of n strangers, and returns how many were admitted.
func strangers(h http.Handler, n int) (passed int) {
	for i := range n {
		passed += admitted(h, 1, stranger(i))
	}
	return passed
}

// WhenBusy: while it is calm all have the quota of their address, and while it is busy
// work comes first. What was bought is good all the time, and what was counted stays counted.
func TestWhenBusy(t *testing.T) {
	seven, eight := from("203.0.113.7"), from("203.0.113.8")
	busy := func(is bool) func(*scene) { return func(s *scene) { require.Equal(s, is, s.site.M.Stats().Busy) } }
	play(t, []scenario{{"calm, busy, calm", by(func(c *clock) middleware.Config { return busyFrom(c, 20, 0) }), []step{
		{do: buys("own", seven)}, {times: 3, show: latest, want: 200, keep: "shared"}, {as: eight, show: "own", want: 200, see: all{noChallenge, own}},
		{as: toFetch, want: 200, see: all{says(`{"needed":false,"left":2,`), busy(false)}},
		{do: func(s *scene) { require.Equal(s, 197, strangers(s.site, 300), "ten seconds' worth, and one") }, see: all{busy(true)}},
		{want: 403, reason: middleware.NoToken, fields: fields{middleware.TokenHeader: ""}, see: all{work(16)}},
		{show: "shared", cookie: "shared", want: 403, reason: middleware.NoToken, fields: fields{middleware.TokenHeader: ""}, see: all{work(16)}},
		{as: toFetch, want: 200, see: all{says(`{"needed":true,"challenge":`)}},
		{as: eight, show: "own", times: 3, want: 200}, // bought while it was calm
		{show: "shared", prove: fresh, want: 200, keep: "spent"}, {as: toFetch, show: "spent", want: 200, see: all{says(`{"needed":false,"left":4,"carried":true`)}},
		{show: "spent", times: 4, want: 200}, {show: "spent", want: 429, reason: middleware.OverLimit}, // no more than its own: the shared one is closed
		{after: 15 * time.Second, see: all{busy(false)}}, {times: 9, passes: 2}, // what the address has used was not forgotten
		{as: from("203.0.113.9"), want: 200}, {as: eight, show: "own", want: 200, see: all{own}}, // own tallies are charged first
		{after: 45 * time.Second, show: "shared", want: 200, see: all{shared}}, // the next window: it is good again
		{show: "spent", want: 200, see: all{own}},                              // bought while it was busy
	}}})
}

// Refused requests, and requests that cost nothing, are no load. Admitted ones are, in every mode that
// admits them.
func TestWhatMakesAnInstanceBusy(t *testing.T) {
	const enough = 201 // of 20 a second: some of their hashes meet
	flooded := func(_ *testing.T, h *site, _ *clock) { strangers(h, enough) }
	for name, test := range map[string]struct {
		busy   bool
		change func(*middleware.Config)
		come   func(t *testing.T, h *site, now *clock)
	}{
		"admitted":  {true, nil, flooded},
		"one fewer": {false, nil, func(_ *testing.T, h *site, _ *clock) { strangers(h, enough-1) }},
		"a flood that is asked for work": {false, nil, func(t *testing.T, h *site, now *clock) {
			strangers(h, enough)
			for range 99 {
				now.Advance(100 * time.Millisecond)
				require.Zero(t, strangers(h, enough))
				require.True(t, h.M.Stats().Busy, "for as long as what was admitted holds it")
			}
			now.Advance(100 * time.Millisecond)
		}},
		"own tallies": {true, nil, func(t *testing.T, h *site, _ *clock) {
			for i := range enough {
				require.Equal(t, 1, admitted(h, 1, showing(bought(t, h, stranger(i))), stranger(i)))
			}
		}},
		"the waiting room": {true, nil, func(t *testing.T, h *site, now *clock) {
			exhaust(t, h)
			ticket := refusedWithTicket(t, h)
			now.Advance(6 * time.Second)
			strangers(h, enough-1)
			require.False(t, h.M.Stats().Busy)
			require.Equal(t, 1, admitted(h, 1, holding(ticket)))
			require.True(t, h.Decisions.Last().FromWaitingRoom)
		}},
		"outside of HTTP": {true, nil, func(t *testing.T, h *site, _ *clock) {
			for i := range enough {
				allowed(t, h.M, middleware.Principal(fmt.Sprint(i)), 1)
			}
		}},
		"in shadow mode": {true, func(cfg *middleware.Config) { cfg.Shadow = true }, flooded},
		"over their limits": {false, func(cfg *middleware.Config) { cfg.Limits[0].Window = time.Hour }, func(t *testing.T, h *site, now *clock) {
			for i := range enough {
				require.Equal(t, 5, admitted(h, 5, stranger(i)))
				now.Advance(time.Second)
			}
			now.Advance(time.Minute)
			require.False(t, h.M.Stats().Busy)
			for range 10 {
				require.Zero(t, strangers(h, enough))
			}
		}},
		"over its limit": {false, nil, func(_ *testing.T, h *site, _ *clock) { admitted(h, 1000) }},
		"over its limit, in shadow mode": {false, func(cfg *middleware.Config) { cfg.Shadow = true }, func(_ *testing.T, h *site, _ *clock) {
			require.Equal(t, 1000, admitted(h, 1000))
		}},
		"free":       {false, func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 0 } }, func(_ *testing.T, h *site, _ *clock) { strangers(h, 1000) }},
		"a dear one": {false, func(cfg *middleware.Config) { cfg.Cost = func(*http.Request) int64 { return 5 } }, func(_ *testing.T, h *site, _ *clock) { strangers(h, enough-1) }},
		"skipped":    {false, func(cfg *middleware.Config) { cfg.Skip = func(*http.Request) bool { return true } }, func(_ *testing.T, h *site, _ *clock) { strangers(h, 1000) }},
		"peeks": {false, nil, func(t *testing.T, h *site, _ *clock) {
			for range 1000 {
				peeked(t, h.M, visitor)
			}
		}},
		"the endpoints": {false, nil, func(t *testing.T, h *site, _ *clock) {
			for i := range 100 {
				bought(t, h, stranger(i))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := busyFrom(now, 20, 0)
			cfg.MaxClients = 1 << 12 // tallies that are bought find no place in a memory that is full
			if test.change != nil {
				test.change(&cfg)
			}
			h := newSite(t, cfg)
			test.come(t, h, now)
			require.Equal(t, test.busy, h.M.Stats().Busy)
		})
	}
}

// many is how many requests are under way on a busy instance: enough that nine of them may share a hash, and ten never
// do. With half of it, five shared one hash once in 40,000 runs, which was one too many.
const many = 160

// comeFromAfar has strangers come, one request each.
func comeFromAfar(h http.Handler, first, end int) {
	for i := first; i < end; i++ {
		come(h, 1, stranger(i))
	}
}

// Requests under way count until their handlers are done, however these end; one that was
// refused is none, nor one that is free.
func TestWhenBusyCountsRequestsUnderWay(t *testing.T) {
	for name, concurrency := range map[string]*middleware.Concurrency{"alone": nil, "with Concurrency": {Max: 5}} {
		kit.RunBubble(t, name, func(t *testing.T) {
			cfg := busyFrom(new(clock), 0, many)
			cfg.Now, cfg.Concurrency = time.Now, concurrency
			h, d := newSite(t, cfg), newDoor(false)
			held := h.M.Handler(d)
			comeFromAfar(held, 1, many)
			require.Equal(t, http.StatusOK, send(h, from("203.0.113.2")).StatusCode, "one more, which is gone")
			require.False(t, h.M.Stats().Busy)
			come(held, 1, from("203.0.113.3"))
			require.Equal(t, http.StatusForbidden, send(h, from("203.0.113.2")).StatusCode)
			require.Equal(t, middleware.NoToken, h.Decisions.Last().Reason)
			require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)

			time.Sleep(time.Hour)
			require.True(t, h.M.Stats().Busy, "for as long as they stay")
			for range 100 {
				require.Equal(t, http.StatusForbidden, send(h, stranger(0)).StatusCode)
			}
			d.opens()
			require.False(t, h.M.Stats().Busy)

			aborts := h.M.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
			for i := range 2 * many {
				require.Panics(t, func() { send(aborts, stranger(i)) })
			}
			require.False(t, h.M.Stats().Busy, "a panic leaves no request behind")
			if concurrency == nil {
				allowed(t, h.M, visitor, 5)
				require.False(t, h.M.Stats().Busy, "what is no request is never under way")
			}
		})
	}
}

func TestAHijackedConnectionIsUnderWay(t *testing.T) {
	hang, now := make(chan struct{}), new(clock)
	m := newLimiter(t, busyFrom(now, 0, 1))
	server := serve(t, m.Handler(hanging(t, hang)))
	upgraded := oneShot(t, server, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	require.Equal(t, http.StatusSwitchingProtocols, upgraded.StatusCode)
	require.True(t, m.Stats().Busy)
	now.Advance(time.Hour)
	require.True(t, m.Stats().Busy)
	hang <- struct{}{}
	<-hang
	require.False(t, m.Stats().Busy)
}

// Reconfigure changes nothing about what was admitted and is under way: else a program that
// reads its file every second would never be busy.
func TestReconfigureKeepsTheLoad(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := busyFrom(nil, 20, many)
		cfg.Now = time.Now
		h, d := newSite(t, cfg), newDoor(false)
		again := func() { require.NoError(t, h.M.Reconfigure(cfg)) }
		for i := range 201 {
			again()
			require.Equal(t, 1, admitted(h, 1, stranger(i)))
		}
		again()
		require.True(t, h.M.Stats().Busy)
		require.Zero(t, strangers(h, 9))
		require.False(t, newLimiter(t, cfg).Stats().Busy, "another instance")

		cfg.Challenge = &middleware.Challenge{Work: 16, Path: "/tally/"}
		again()
		require.False(t, h.M.Stats().Busy, "in another mode no instance is")
		require.Equal(t, 9, strangers(h, 9))
		cfg.Challenge = busyFrom(nil, 20, many).Challenge
		again()
		require.True(t, h.M.Stats().Busy, "it was not ten seconds")

		time.Sleep(10 * time.Second)
		require.False(t, h.M.Stats().Busy)
		comeFromAfar(h.M.Handler(d), 1, many)
		again()
		require.False(t, h.M.Stats().Busy)
		comeFromAfar(h.M.Handler(d), many, many+1)
		require.True(t, h.M.Stats().Busy, "those under way before count on")
		d.opens()
		again()
		time.Sleep(10 * time.Second)
		require.False(t, h.M.Stats().Busy)
	})
}

// One client makes no instance busy, and not even its own network: neither by what its addresses get for nothing, nor by
// what it buys, nor by a tally that it shows from everywhere. It once took 4 W an hour.
func TestOneClientMakesNobodyBusy(t *testing.T) {
	ipv4 := func(int) string { return "5.6.7.8" }
	host := func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i%40000) }
	anywhere := func(i int) string { return fmt.Sprintf("%d.%d.7.1", 60+i>>8%16, i&255) }
	for name, a := range map[string]struct {
		limit, perSecond int64
		tallies          int // that it buys
		from             func(i int) string
		neighbour        string
	}{
		"an IPv4 address, quick":              {600, 50, 4, ipv4, "5.6.9.9"},
		"an IPv4 address, slow":               {60, 5, 4, ipv4, "5.6.9.9"},
		"an IPv4 address with many tallies":   {60, 50, 36, ipv4, "5.6.9.9"},
		"an IPv4 address that works for none": {600, 5, 0, ipv4, "5.6.9.9"},
		"a /48 that works for none":           {60, 5, 0, host, "2001:dbb:ffff::1"},
		"a /48 with many tallies":             {60, 50, 36, host, "2001:dbb:ffff::1"},
		"a tally from everywhere":             {600, 5, 1, anywhere, "60.0.9.9"},
		"a key in many things":                {600, 5, 0, anywhere, "60.0.9.9"},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := busyFrom(now, a.perSecond, 0)
			cfg.Limits[0].Quota, cfg.MaxClients = a.limit, 1<<16
			if name == "a key in many things" { // in however many its quota is counted apart
				cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
					return middleware.APIKey("one").For(r.RemoteAddr), nil
				}
			}
			h := newSite(t, cfg)
			var farm []string
			for i := range a.tallies {
				farm = append(farm, bought(t, h, from(a.from(i))))
			}
			seconds, n := 1800, 0
			if !kit.Whole() {
				seconds = 300
			}
			for second := range seconds {
				require.False(t, h.M.Stats().Busy, "second %d", second)
				require.False(t, h.M.BusyFor(now.Now(), address(a.neighbour)), "second %d", second)
				most := a.perSecond/2 + 1 // would hold it busy
				if second%60 < 20 {
					most = a.perSecond * 2 // and this makes it so
				}
				for range most {
					who := []option{from(a.from(n))}
					if len(farm) > 0 {
						who = append(who, showing(farm[n%len(farm)]))
					}
					admitted(h, 1, who...)
					n++
				}
				now.Advance(time.Second)
			}
			require.Equal(t, 1, admitted(h, 1, from(a.neighbour)))
			require.Equal(t, 20, strangers(h, 20), "no client is asked for work")
		})
	}
}

// Nor do its connections, however many it holds.
func TestOneClientsConnectionsMakeNobodyBusy(t *testing.T) {
	for name, who := range map[string]func(i int) string{
		"an IPv4 address": func(int) string { return "5.6.7.8" },
		"a /48":           func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) },
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			cfg := busyFrom(nil, 0, 40)
			cfg.Now, cfg.Limits[0].Quota = time.Now, 1000
			h, d := newSite(t, cfg), newDoor(false)
			for i := range 200 {
				come(h.M.Handler(d), 1, from(who(i)))
			}
			require.False(t, h.M.Stats().Busy)
			require.Equal(t, 20, strangers(h, 20), "no client is asked for work")
			d.opens()
		})
	}
}

// A network with more than a quarter of the load is busy for its own clients alone: its addresses may be a million.
// Five such networks make the instance busy, and four do not.
func TestABusyNetwork(t *testing.T) {
	const perSecond = 20
	now := new(clock)
	h := newSite(t, busyFrom(now, perSecond, 0))
	flood := func(network int) (passed int) {
		for i := range 10 * perSecond {
			passed += admitted(h, 1, from(fmt.Sprintf("5.%d.%d.7", network, i)))
		}
		return passed
	}
	require.Equal(t, perSecond*10/4, flood(0))
	require.True(t, h.M.BusyFor(now.Now(), address("5.0.99.1")), "neighbours are asked")
	challengeIn(t, send(h, from("5.0.99.1")))
	require.Contains(t, bodyOf(t, fetched(h, from("5.0.99.1"))), `{"needed":true,"challenge":`)
	for network, flooded := 1, 1; flooded < 5; network++ {
		require.Less(t, network, 10, "others are not")
		if h.M.BusyFor(now.Now(), address(fmt.Sprintf("5.%d.99.1", network))) {
			continue // it shares a hash with another
		}
		require.False(t, h.M.Stats().Busy)
		flood(network)
		flooded++
	}
	require.True(t, h.M.Stats().Busy)
	now.Advance(20 * time.Second)
	require.False(t, h.M.Stats().Busy)
	require.Equal(t, 1, admitted(h, 1, from("5.0.99.1")))
}

// An attacker can make an instance busy, with requests that are admitted, and keep it so for as long as it pays for
// them. That costs others work, and locks no client out: a newcomer proves work once, at the price of its own
// address, and is served as ever; a client that has bought a tally notices nothing.
func TestAnAttackerWhoMakesAnInstanceBusyLocksNobodyOut(t *testing.T) {
	const perSecond, attackers = 10, 24
	for name, addr := range map[string]string{"of its own": "", "that the attacker has too": "60.0.7.1"} {
		t.Run("newcomers with an address "+name, func(t *testing.T) {
			now := new(clock)
			h := newSite(t, busyFrom(now, perSecond, 0))
			holder := &honest{token: bought(t, h, from("203.0.113.50"))}
			farms, work := make([]string, attackers), uint64(0)
			attack := func(second int) { // from many networks, half the threshold and a little more
				for i, farm := range farms {
					if (i+second)%3 != 0 {
						continue
					}
					who := from(fmt.Sprintf("%d.0.7.1", 60+i))
					if send(h, who, showing(farm)).StatusCode != http.StatusOK {
						c := challengeIn(t, fetched(h, who))
						work += c.Work
						farms[i] = tokenIn(send(h, who, proving(solve(t, c))))
					}
				}
			}
			strangers(h, 12*perSecond)
			served, proofs := 0, 0
			for second := range 60 {
				require.True(t, h.M.Stats().Busy, "second %d", second)
				attack(second)
				newcomer := &honest{}
				who := from(fmt.Sprintf("192.0.2.%d", second))
				if addr != "" && second < 3 {
					who = from(addr)
				}
				for range 5 { // its whole quota
					if newcomer.askFrom(t, h, who) {
						served++
					}
				}
				proofs += len(newcomer.prices)
				if second%12 == 0 {
					require.True(t, holder.askFrom(t, h, from("203.0.113.50")), "second %d", second)
				}
				now.Advance(time.Second)
			}
			require.Equal(t, 60*5, served, "all that they asked for")
			require.Equal(t, 60, proofs, "for one proof each")
			require.Empty(t, holder.prices, "a holder is asked for nothing")
			require.Positive(t, work, "what it has cost the attacker")
		})
	}
}

// askFrom is ask, from an address.
func (c *honest) askFrom(t *testing.T, h http.Handler, who option) bool {
	return c.ask(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who(r)
		h.ServeHTTP(w, r)
	}))
}

// Tokens that were had for nothing while it was calm, and tallies that were bought whenever, are
// worth no more than in WhenExhausted: (N+C)·L·(1+F), whatever the load has been in between.
func TestBoundWhenBusy(t *testing.T) {
	const instances, starts, limit, farmed = 3, 2, 5, 4
	now := new(clock)
	cfg := busyFrom(now, 2, 0)
	var sites []*site
	for range instances + starts {
		sites = append(sites, newSite(t, cfg))
	}
	var farm, shared []string
	passed, asked := int64(0), 0
	attack := func(s *site) {
		before := s.Spy.Calls.Load()
		for range limit + 2 {
			for _, shown := range append([]string{""}, append(farm, shared...)...) {
				resp := send(s, showing(shown))
				if resp.StatusCode == http.StatusForbidden {
					asked++
				}
			}
		}
		passed += s.Spy.Calls.Load() - before
	}
	for _, s := range sites[:instances] {
		passed++
		shared = append(shared, tokenIn(send(s))) // first tokens, while it is calm
	}
	for i := range farmed {
		farm = append(farm, bought(t, sites[i%instances]))
	}
	for range 5 { // busy, calm, and busy again, within one window
		for _, s := range sites[:instances] {
			strangers(s, 30)
			attack(s)
			attack(s)
		}
		now.Advance(10 * time.Second)
		for _, s := range sites {
			attack(s)
		}
	}
	require.Positive(t, asked)
	require.LessOrEqual(t, now.Now().Sub(midnight), time.Minute)
	require.EqualValues(t, (instances+starts)*limit*(1+farmed), passed, "(N+C)·L·(1+F), and no less: what it says is true")
}

// However many addresses strangers have, all together an instance admits no more without work, in any time, than the threshold and
// ten seconds' worth, and from one network a quarter. TestMeterBoundsWhatCalmNetworksAdmit plays them at random.
func TestAllThatStrangersGetWithoutWork(t *testing.T) {
	const perSecond, seconds = 24, 60
	for networks, most := range map[int]float64{1 << 16: perSecond, 1: perSecond / 4} {
		now := new(clock)
		h := newSite(t, changed(busyFrom(now, perSecond, 0), func(cfg *middleware.Config) { cfg.MaxClients = 1 << 16 }))
		passed, spells, was := 0, 0, false
		for i := range seconds * 50 { // a flood
			passed += admitted(h, 1, from(fmt.Sprintf("%d.%d.%d.1", 60+i%networks>>8, i%networks&255, i>>4&255)))
			if busy := h.M.Stats().Busy; busy != was {
				was, spells = busy, spells+boolToInt(busy)
			}
			require.LessOrEqual(t, float64(passed), most*(float64(i)/50+10)+float64(spells), "after %d of %d networks", i, networks)
			now.Advance(time.Second / 50)
		}
		require.Equal(t, networks > 1, spells > 0)
		require.Greater(t, passed, int(most)*seconds/2, "strangers shut no client out for good")
	}
}

// Everything at once, for the race detector: whatever the order, all that have begun have ended.
func TestWhenBusyIsSafeForConcurrentUse(t *testing.T) {
	now := new(clock)
	cfg := busyFrom(now, 5, 3)
	cfg.Concurrency = &middleware.Concurrency{Max: 5}
	h := newSite(t, cfg)
	tok := bought(t, h)
	inParallel(400, func(i int) {
		switch i % 8 {
		case 0:
			_ = h.M.Reconfigure(cfg)
		case 1:
			h.M.Stats()
		case 2:
			send(h, showing(tok))
		case 3:
			now.Advance(50 * time.Millisecond)
		default:
			send(h, stranger(i))
		}
	})
	now.Advance(10 * time.Second)
	require.False(t, h.M.Stats().Busy)
	for i := range 2 {
		require.Equal(t, 1, admitted(h, 1, from(fmt.Sprintf("192.0.2.%d", i))), "no request is under way")
	}
}

// TestWaitingRoomOfStrangers: what strangers get without work is beside the waiting room, which each of their addresses has.
func TestWaitingRoomOfStrangers(t *testing.T) {
	const perSecond, many = 16, 300 // with less of a rate, two whose hashes meet count as one
	now := new(clock)
	h := newSite(t, changed(waiting(now, middleware.WhenBusy), func(cfg *middleware.Config) { cfg.Challenge.BusyPerSecond = perSecond }))
	require.Equal(t, 10*perSecond+1, strangers(h, many))
	tickets := map[int][]string{}
	for i := range many {
		tickets[i] = ticketsOf(t, h, 2*laneQuota, stranger(i))
	}
	now.Advance(5 * time.Second)
	require.True(t, h.M.Stats().Busy)
	for i := range many {
		require.Equal(t, laneQuota, admittedWith(h, tickets[i], stranger(i)), "stranger %d", i)
	}
	require.Zero(t, strangers(h, many), "and no more without a ticket")
}
