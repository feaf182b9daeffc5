// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/judge"
)

func TestOracle(t *testing.T) {
	of := func(n int64) judge.Spread { return judge.Spread{Least: n, Most: n} }
	for _, c := range []struct {
		name           string
		prev, last     int64
		reach          int64
		elapsed, quota judge.Spread
		touched        bool
		must, may      bool
	}{
		{name: "new", elapsed: of(20), quota: of(5), must: true, may: true},
		{name: "the last one", last: 4, elapsed: of(20), quota: of(5), must: true, may: true},
		{name: "used up", last: 5, elapsed: of(20), quota: of(5)},
		{name: "two thirds of the last window count", prev: 6, last: 1, elapsed: of(20), quota: of(5)},
		{name: "less than two thirds", prev: 6, elapsed: of(20), quota: of(5), must: true, may: true},
		{name: "it hangs on the clock", prev: 6, last: 1, elapsed: judge.Spread{Least: 20, Most: 30}, quota: of(5), may: true},
		{name: "it hangs on the quota", last: 5, elapsed: of(20), quota: judge.Spread{Least: 5, Most: 6}, may: true},
		{name: "a clock was wrong: all may count", last: 1, reach: 5, elapsed: of(20), quota: of(5), touched: true, may: true},
		{name: "a clock was wrong, and all of it has room", last: 1, reach: 4, elapsed: of(20), quota: of(5), touched: true, must: true, may: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := oracle{prev: c.prev, last: c.last, reach: c.reach}
			require.Equal(t, c.must, o.must(c.elapsed, c.quota, c.touched))
			require.Equal(t, c.may, o.may(c.elapsed, c.quota, c.touched))
		})
	}

	var o oracle
	o.roll(7, false)
	o.used()
	o.used()
	o.roll(8, false)
	require.Equal(t, oracle{at: 8, prev: 2, reach: 2}, o)
	o.used()
	o.roll(9, true)
	o.used()
	require.Equal(t, oracle{at: 9, prev: 1, last: 1, reach: 4}, o, "nothing is forgotten while clocks may be wrong")
	o.roll(30, false)
	require.Equal(t, oracle{at: 30}, o)
}

func TestBook(t *testing.T) {
	who := tenant{windowed, netip.MustParseAddr("10.0.0.1")}
	buyer := tenant{form, netip.MustParseAddr("10.0.0.2")}
	admit := func(b *book, t tenant, p part, n int, name string, instance int) {
		for range n {
			b.admit(t, name, p, instance, 100, 30)
		}
	}
	for _, c := range []struct {
		name string
		do   func(*book)
		kind string
		want reached
	}{
		{"as much as it may", func(b *book) { admit(b, who, shared, 30, "drops 0", 0); admit(b, who, shared, 30, "drops 0", 1) }, "drops on /window", reached{30, 30, 0}},
		{"one more", func(b *book) { admit(b, who, shared, 30, "drops 0", 0); admit(b, who, shared, 31, "drops 0", 1) }, "drops on /window", reached{31, 30, 1}},
		{"a bound that is one lower", func(b *book) { b.slack = -1; admit(b, who, shared, 30, "drops 0", 0) }, "drops on /window", reached{30, 29, 1}},
		{"an instance that began anew", func(b *book) { b.restart(1, 100); admit(b, who, shared, 60, "drops 0", 1) }, "drops on /window", reached{60, 60, 0}},
		{"another one did", func(b *book) { b.restart(1, 100); admit(b, who, shared, 31, "drops 0", 0) }, "drops on /window", reached{31, 30, 1}},
		{"the honest are one kind", func(b *book) { admit(b, who, shared, 31, "steady 3", 0) }, "honest on /window", reached{31, 30, 1}},
		{"the waiting room", func(b *book) { admit(b, buyer, waited, 6, "waits 0", 0) }, "waits on /form, waited", reached{6, 6, 0}},
		{"more than the waiting room", func(b *book) { admit(b, buyer, waited, 7, "waits 0", 0) }, "waits on /form, waited", reached{7, 6, 1}},
		{"a tally", func(b *book) { b.buys(buyer, 100); admit(b, buyer, bought, 30, "farms 0", 2) }, "farms on /form, bought", reached{30, 30, 0}},
		{"more than that", func(b *book) { b.buys(buyer, 100); admit(b, buyer, bought, 31, "farms 0", 2) }, "farms on /form, bought", reached{31, 30, 1}},
		{"it is whole elsewhere", func(b *book) {
			b.buys(buyer, 100)
			admit(b, buyer, bought, 30, "farms 0", 0)
			admit(b, buyer, bought, 31, "farms 0", 1)
		}, "farms on /form, bought", reached{31, 30, 1}},
		{"two tallies", func(b *book) {
			b.buys(buyer, 100)
			b.buys(buyer, 200)
			admit(b, buyer, bought, 61, "farms 0", 1)
		}, "farms on /form, bought", reached{61, 60, 1}},
		{"a tally on an instance that began anew", func(b *book) { b.buys(buyer, 100); b.restart(0, 100); admit(b, buyer, bought, 60, "farms 0", 0) }, "farms on /form, bought", reached{60, 60, 0}},
		{"a tally that has ended", func(b *book) { b.buys(buyer, 99); admit(b, buyer, bought, 1, "farms 0", 2) }, "farms on /form, bought", reached{1, 0, 1}},
		{"nothing was bought", func(b *book) { admit(b, buyer, bought, 1, "farms 0", 0) }, "farms on /form, bought", reached{1, 0, 1}},
		{"what is bought is no more for nothing", func(b *book) { b.buys(buyer, 100); admit(b, buyer, shared, 31, "farms 0", 0) }, "farms on /form", reached{31, 30, 1}},
		{"a bucket and its burst", func(b *book) { admit(b, tenant{bucket, who.address}, shared, 30+burst, "drops 0", 0) }, "drops on /bucket", reached{30 + burst, 30 + burst, 0}},
		{"more than its burst", func(b *book) { admit(b, tenant{bucket, who.address}, shared, 31+burst, "drops 0", 0) }, "drops on /bucket", reached{31 + burst, 30 + burst, 1}},
		{"a quota that was higher for a moment", func(b *book) { b.admit(who, "drops 0", shared, 0, 100, 40); admit(b, who, shared, 39, "drops 0", 0) }, "drops on /window", reached{40, 40, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(0)
			c.do(b)
			b.close(100)
			require.Empty(t, b.worst, "the window is not over")
			b.close(101)
			require.Equal(t, c.want, *b.worst[c.kind])
			require.Len(t, b.worst, 1)
			require.Empty(t, b.admitted, "nothing stays")
			require.Empty(t, b.most[windowed])
			require.Empty(t, b.anew)
			b.close(201)
			require.Empty(t, b.owned)
		})
	}
}

// All addresses together get no more without work than makes an instance busy. What was bought is not in it.
func TestBookOfMany(t *testing.T) {
	const most = 10*perSecond + permitted*perSecond + onTheirWay
	for _, c := range []struct {
		name     string
		n        int
		restarts int
		want     reached
	}{
		{"as many as may be", most, 0, reached{most, most, 0}},
		{"one more", most + 1, 0, reached{most + 1, most, 1}},
		{"an instance that began anew", most + 1, 1, reached{most + 1, 2 * most, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(0)
			for range c.restarts {
				b.restart(1, 100)
			}
			for i := range c.n {
				at := tenant{busy, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})}
				b.buys(at, 100)
				b.admit(at, "floods 0", shared, 1, 100, 30)
				b.admit(at, "floods 0", bought, 1, 100, 30)
				b.admit(at, "floods 0", waited, 1, 100, 30)
			}
			b.close(101)
			require.Equal(t, c.want, *b.worst["all, without work, on /busy"])
		})
	}
}

// A holder is refused by the quota of its tally, and by nothing else.
func TestHolder(t *testing.T) {
	calm := turn{calm: true, agree: true, elapsed: judge.Spread{Least: middle, Most: middle}, parts: 1}
	for _, c := range []struct {
		name           string
		tally          int64
		quota          judge.Spread
		charged        bool
		unjust, excess bool
	}{
		{name: "room", tally: 29, quota: judge.Spread{Least: 30, Most: 30}, charged: true},
		{name: "refused with room", tally: 29, quota: judge.Spread{Least: 30, Most: 30}, unjust: true},
		{name: "used up", tally: 30, quota: judge.Spread{Least: 30, Most: 30}},
		{name: "used up, and admitted", tally: 30, quota: judge.Spread{Least: 30, Most: 30}, charged: true, excess: true},
		{name: "it hangs on the quota, refused", tally: 28, quota: judge.Spread{Least: 27, Most: 30}},
		{name: "it hangs on the quota, admitted", tally: 28, quota: judge.Spread{Least: 27, Most: 30}, charged: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &holder{}
			h.tally.last = c.tally
			unjust, excess := h.judge(c.charged, calm, c.quota)
			require.Equal(t, []bool{c.unjust, c.excess}, []bool{unjust, excess})
		})
	}
}

func TestLedger(t *testing.T) {
	yes := instance.Decision{Admitted: true, Call: "answered"}
	no := instance.Decision{Reason: string(middleware.OverLimit), Call: "answered"}
	down := instance.Decision{Reason: string(middleware.CounterDown), Call: "down"}
	fell := instance.Decision{Admitted: true, Degraded: true, Call: "skipped"}
	spent := instance.Decision{Reason: string(middleware.OverLimit), Degraded: true, Call: "skipped"}
	load := instance.Decision{Reason: string(middleware.Overloaded), Call: "busy"}
	for _, c := range []struct {
		name      string
		closed    bool
		decisions []instance.Decision
		underway  int
		stood     bool
		used      int64
		want      ledgerFindings
	}{
		{name: "all is well", stood: true, decisions: []instance.Decision{yes, yes, no}, used: 2, want: ledgerFindings{Acknowledged: 2, most: 2}},
		{name: "lost", stood: true, decisions: []instance.Decision{yes, yes}, used: 1, want: ledgerFindings{Acknowledged: 2, Lost: 1, most: 2}},
		{name: "invented", stood: true, decisions: []instance.Decision{yes}, used: 2, want: ledgerFindings{Acknowledged: 1, Invented: 1, most: 1}},
		{name: "an answer that was lost was counted", decisions: []instance.Decision{yes, down}, used: 2, want: ledgerFindings{Acknowledged: 1, unknown: 1, most: 1}},
		{name: "more than the quota", stood: true, decisions: []instance.Decision{yes, yes, yes}, used: 3, want: ledgerFindings{Acknowledged: 3, OverQuota: 1, most: 3}},
		{name: "refused with room", stood: true, decisions: []instance.Decision{yes, no}, used: 1, want: ledgerFindings{Acknowledged: 1, Unjust: 1, most: 1}},
		{name: "one is under way", stood: true, underway: 1, decisions: []instance.Decision{yes, no}, used: 1, want: ledgerFindings{Acknowledged: 1, most: 1}},
		{name: "no answer though it stood", stood: true, decisions: []instance.Decision{down}, want: ledgerFindings{unknown: 1, Unexplained: 1}},
		{name: "load is no failure", stood: true, decisions: []instance.Decision{load}, want: ledgerFindings{load: 1}},
		{name: "the fallback", decisions: []instance.Decision{fell, spent}, want: ledgerFindings{unknown: 2, fellBack: 1, mostFellBack: 1}},
		{name: "more than the fallback", decisions: []instance.Decision{fell, fell}, want: ledgerFindings{unknown: 2, fellBack: 2, OverOutage: 1, mostFellBack: 2}},
		{name: "closed is closed", closed: true, decisions: []instance.Decision{fell}, want: ledgerFindings{unknown: 1, fellBack: 1, OverOutage: 1, mostFellBack: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			who := netip.MustParseAddr("10.0.0.1")
			l := newLedger(2, 1, c.closed)
			for range len(c.decisions) + c.underway {
				l.begin(who)
			}
			for _, d := range c.decisions {
				l.decided(who, d, c.stood)
			}
			require.Equal(t, []netip.Addr{who}, l.open())
			l.compare(who, c.used)
			c.want.Checked = 1
			require.Equal(t, c.want, l.findings)
			require.Empty(t, l.open(), "it is closed")
		})
	}
}

// A rotation is the three steps of docs/operations.md, in their order and no sooner.
func TestRing(t *testing.T) {
	r := newRing()
	first := r.secrets[0]
	require.Equal(t, []string{first}, r.next(1000, 120), "nobody wants another one")
	r.rotate()
	added := r.next(1001, 120)
	require.Len(t, added, 2)
	require.Equal(t, first, added[0], "the old one signs until all have the new one")
	led := r.next(1002, 120)
	require.Equal(t, []string{added[1], first}, led)
	require.Equal(t, led, r.next(1002+120+window-1, 120), "its last token lives")
	require.Equal(t, []string{added[1]}, r.next(1002+120+window, 120))
	require.Equal(t, []int64{1, 1, 1}, []int64{r.added, r.led, r.dropped})
	for range 3 * ringMost {
		r.rotate()
		require.LessOrEqual(t, len(r.next(2000, 120)), ringMost, "one has to wait where there is no room")
		r.next(2000, 120)
	}
	require.Len(t, r.secrets, ringMost)
	require.Len(t, r.next(1e6, 120), 1)
}

// On whichever day a run begins, neither Redis' own clock comes near the end of a window of the
// exact routes, nor do those of the instances in a cycle.
func TestExactWindowsDoNotEnd(t *testing.T) {
	const day = 24 * 60 * 60
	year := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	for now := year; now.Year() < 2060; now = now.Add(day * time.Second) {
		exact := exactWindow(now)
		seconds := int64(exact / time.Second)
		require.LessOrEqual(t, seconds, int64(365*day), now)
		require.Zero(t, seconds%window, now)
		gone := now.Unix() % seconds
		require.Greater(t, min(gone, seconds-gone), int64(170*day), now)

		c := newClocks(exact)
		for cycle := range 3 * passEach {
			before, at := c.right.Load(), c.right.Load()%seconds
			require.Greater(t, min(at, seconds-at), int64(150*day), now)
			require.EqualValues(t, middle, at%window, now)
			require.NoError(t, c.move(ofCycle*window))
			if (cycle+1)%passEach == 0 {
				require.NoError(t, c.pass())
				require.Greater(t, c.right.Load()-before, 2*seconds, "tokens live for two windows")
				require.Equal(t, c.first, c.right.Load()%seconds, now)
			} else {
				require.NoError(t, c.move(leap))
			}
		}
	}
}

// One clock may be wrong; when the true time goes on, all are right again.
func TestClocks(t *testing.T) {
	c, told := newClocks(exactWindow(time.Now())), make([]int64, 2)
	c.house = new(house.Cluster)
	for i := range told {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			told[i], _ = strconv.ParseInt(r.FormValue("now"), 10, 64)
		}))
		t.Cleanup(s.Close)
		c.house.Instances = append(c.house.Instances, &house.Process{Where: instance.Where{Back: netip.MustParseAddrPort(s.Listener.Addr().String())}})
	}
	right := c.right.Load()
	require.EqualValues(t, middle, right%window)
	require.NoError(t, c.set(1, -back))
	require.Equal(t, []int64{0, right - back}, told)
	require.Equal(t, right, c.right.Load())
	require.NoError(t, c.move(window))
	require.Equal(t, []int64{right + window, right + window}, told)
	require.Equal(t, right+window, c.right.Load())
}

// The answers of honest clients are judged as they come.
func TestRefusalsAreJudged(t *testing.T) {
	w := &world{clocks: newClocks(exactWindow(time.Now())), quotas: quotasOf(), book: newBook(0), client: http.DefaultClient}
	in, over := instance.Decision{Reason: "within-limits", Admitted: true}, instance.Decision{Reason: string(middleware.OverLimit)}
	var before [][2]int64 // unjust and lost, when a request comes
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		unjust, _ := w.Unjust.Read()
		lost, _ := w.Lost.Read()
		status, d := http.StatusTooManyRequests, over
		switch before = append(before, [2]int64{unjust, lost}); len(before) {
		case 2:
			status, d = http.StatusOK, in
		case 4:
			rw.WriteHeader(http.StatusBadGateway)
			return
		case 5:
			w.away.Change()
			panic(http.ErrAbortHandler)
		}
		rw.Header().Set(instance.DecisionHeader, d.String())
		rw.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	for i := range w.where {
		w.where[i].Front = netip.MustParseAddrPort(s.Listener.Addr().String())
	}
	w.quotas[windowed].Change(1)()
	w.metered(windowed, "neither")(turn{calm: true, agree: true, parts: 1})
	require.Equal(t, [][2]int64{{0, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 1}, {1, 1}}, before[:6],
		"refused with room; admitted; refused without; no decision; cut while a process was away")
	unjust, first := w.Unjust.Read()
	require.EqualValues(t, 1, unjust)
	require.Contains(t, first, "metered by neither 0: 429 "+over.String())
	require.EqualValues(t, len(before)-2, w.decisions.Load())
	require.Equal(t, map[entry]int64{{tenant{windowed, netip.MustParseAddr("10.0.0.1")}, shared, 0, 0}: 1}, w.book.admitted)

	w.caller(windowed, "steady", 0).want(0, "")
	unjust, _ = w.Unjust.Read()
	require.EqualValues(t, 2, unjust, "who wants something has room")
}

func TestShares(t *testing.T) {
	for n := range 100 {
		sum := 0
		for part := range 3 {
			sum += turn{part: part, parts: 3}.share(n)
		}
		require.Equal(t, n, sum)
	}
}
