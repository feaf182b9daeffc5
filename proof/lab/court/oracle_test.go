// SPDX-License-Identifier: Apache-2.0

package court

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/storeless"
)

// tokenOf is no token but for the claims that the oracle reads.
func tokenOf(own string, ends int64) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"aud":"p","fam":%q,"exp":%d}`, own, ends))) + ".e30"
}

// A step is a request at an address, and the answer.
type step struct {
	shows  string // the own tally
	status int    // 0: there is none
	d      house.Decision
	brings string
}

const (
	ok, no = http.StatusOK, http.StatusTooManyRequests
	ends   = 200 * 60
)

// asks has a client of a policy make some requests.
func asks(o *Oracle, l *Who, steps ...step) {
	for _, s := range steps {
		r := httptest.NewRequest(http.MethodPost, "/p", nil)
		if s.shows != "" {
			r.Header.Set(middleware.TokenHeader, tokenOf(s.shows, ends))
		}
		c := o.begin(l, "10.0.0.1", r)
		if s.status == 0 {
			c.end(nil)
			continue
		}
		w := httptest.NewRecorder()
		if s.brings != "" {
			w.Header().Set(middleware.TokenHeader, tokenOf(s.brings, ends))
		}
		if s.d.Reason != "" {
			s.d.Admitted = s.d.Admitted || s.status < http.StatusBadRequest
			w.Header().Set(house.DecisionHeader, s.d.String())
		}
		w.WriteHeader(s.status)
		c.end(w.Result())
	}
}

// judges returns the oracle of one policy, and a client of it.
func judges(t *Terms) (*Oracle, *Who) {
	o := NewOracle(map[string]*Terms{"p": t})
	o.clock = new(atomic.Int64)
	return o, &Who{Name: "drops 0", Policy: "p"}
}

func TestOracle(t *testing.T) {
	in, over, own := house.Decision{Reason: "within-limits"}, house.Decision{Reason: "over-limit"}, house.Decision{Reason: "within-limits", Own: true}
	room := house.Decision{Reason: "x", Room: true}
	for _, c := range []struct {
		name                              string
		sold, each                        bool
		steps                             []step
		asked, refused, unjust, explained int
	}{
		{name: "the address has room", steps: []step{{"", ok, in, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the address has none", steps: []step{{"", ok, in, ""}, {"", ok, in, ""}, {"", no, over, ""}}, refused: 1},
		{name: "the tally shown has room", sold: true, steps: []step{{"a", ok, own, "a"}, {"a", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the tally shown has none", sold: true, steps: []step{{"", ok, own, "a"}, {"a", ok, own, "a"}, {"a", no, over, ""}}, refused: 1},
		{name: "the count of another one is not mine", sold: true, steps: []step{{"b", ok, own, "b"}, {"b", ok, own, "b"}, {"a", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the address is charged, and its own has room", sold: true, steps: []step{{"a", ok, own, "a"}, {"a", ok, in, ""}}, unjust: 1},
		{name: "the address is charged, and its own has none", sold: true, steps: []step{{"a", ok, own, "a"}, {"a", ok, own, "a"}, {"a", ok, in, ""}}},
		{name: "the room is not the address", steps: []step{{"", ok, room, ""}, {"", ok, in, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "nothing to show where work comes first", sold: true, steps: []step{{"", 403, house.Decision{Reason: "no-token"}, ""}}, asked: 1},
		{name: "a proof for each request", each: true, steps: []step{{"", 403, house.Decision{Reason: "no-token"}, ""}}, asked: 1},
		{name: "over the limit with a proof", each: true, steps: []step{{"", no, over, ""}}, refused: 1, unjust: 1},
		{name: "a full memory", steps: []step{{"", no, house.Decision{Reason: "over-limit", Inherited: 2}, ""}}, refused: 1, explained: 1},
		{name: "it began with the counts of others", steps: []step{{"", ok, house.Decision{Reason: "x", Inherited: 1}, ""}, {"", no, over, ""}}, refused: 1, explained: 1},
		{name: "it is told later", steps: []step{{"", no, over, ""}, {"", ok, house.Decision{Reason: "x", Inherited: 1}, ""}}, refused: 1, explained: 1},
		{name: "another one began with them", sold: true, steps: []step{{"a", ok, house.Decision{Reason: "x", Own: true, Inherited: 1}, "a"}, {"b", no, over, ""}}, refused: 1, unjust: 1},
		{name: "the proxy alone", steps: []step{{"", http.StatusNotFound, house.Decision{}, ""}}},
		{name: "no answer may be a charge", steps: []step{{"", ok, in, ""}, {"", http.StatusBadGateway, house.Decision{}, ""}, {"", no, over, ""}}, refused: 1},
		{name: "nor is it more", steps: []step{{"", 0, house.Decision{}, ""}, {"", no, over, ""}}, refused: 1, unjust: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, l := judges(&Terms{Window: 60, Quota: NewQuotas(2), Sold: c.sold, Each: c.each})
			l.Honest = true
			asks(o, l, c.steps...)
			require.EqualValues(t, c.asked, o.Asked.Load(), "asked")
			require.EqualValues(t, c.refused, o.Refused.Load(), "refused")
			require.EqualValues(t, c.explained, o.Verdict(), "explained")
			unjust, _ := o.Unjust.Read()
			require.EqualValues(t, c.unjust, unjust, "unjust")
			for name, u := range o.used {
				require.Zero(t, u.underway, name)
			}
		})
	}
}

// What is under way may have been charged: the refusal of another request is no fault then.
func TestOracleWaitsForWhatIsUnderWay(t *testing.T) {
	o, l := judges(&Terms{Window: 60, Quota: NewQuotas(1)})
	l.Honest = true
	first := o.begin(l, "10.0.0.1", httptest.NewRequest(http.MethodPost, "/p", nil))
	over := step{"", no, house.Decision{Reason: "over-limit"}, ""}
	asks(o, l, over)
	require.Empty(t, o.early)
	first.end(httptest.NewRecorder().Result())
	asks(o, l, over)
	require.Len(t, o.early, 1, "neither was admitted")
}

// A client that echoes gets what it may, and no more; its tokens are accepted.
func TestEchoes(t *testing.T) {
	for _, c := range []struct {
		name           string
		sold           bool
		step           step
		touched        bool
		excess, tokens int64
	}{
		{name: "one too many", step: step{"", ok, house.Decision{Reason: "x"}, ""}, excess: 1},
		{name: "a clock was wrong", step: step{"", ok, house.Decision{Reason: "x"}, ""}, touched: true},
		{name: "in the next window", step: step{"", ok, house.Decision{Reason: "x", At: 120}, ""}},
		{name: "its address, where tallies are sold", sold: true, step: step{"", ok, house.Decision{Reason: "x"}, ""}},
		{name: "no token is accepted", step: step{"", no, house.Decision{Reason: "over-limit", TokenErr: "no"}, ""}, tokens: 1},
		{name: "it ended late, and no clock was wrong", step: step{"", no, house.Decision{Reason: "over-limit", TokenErr: "no", Late: true}, ""}, tokens: 1},
		{name: "it ended late", step: step{"", no, house.Decision{Reason: "over-limit", TokenErr: "no", Late: true}, ""}, touched: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, l := judges(&Terms{Window: 60, Quota: NewQuotas(1), Sold: c.sold})
			l.Honest, l.Echoes, o.Strict = true, true, true
			asks(o, l, step{"", ok, house.Decision{Reason: "x"}, ""})
			o.Touched.Store(c.touched)
			asks(o, l, c.step)
			excess, _ := o.Excess.Read()
			tokens, _ := o.TokenErrors.Read()
			require.Equal(t, []int64{c.excess, c.tokens}, []int64{excess, tokens})
		})
	}
}

// Where it is known when requests were decided, the oracle says what the library decides: whatever the algorithm, at any pace.
func TestRoomIsThatOfTheLibrary(t *testing.T) {
	for name, l := range map[string]storeless.Limit{
		"sliding": {}, "fixed": {Algorithm: storeless.FixedWindow}, "bucket": {Algorithm: storeless.TokenBucket, Burst: 8},
	} {
		t.Run(name, func(t *testing.T) {
			l.Quota, l.Window = 7, time.Minute
			p := kit.Must(limiter.Compile("p", []storeless.Limit{l}))(t)
			random := rand.New(rand.NewPCG(1, 2))
			terms, quota := &Terms{Window: 60, Fixed: name == "fixed", Burst: l.Burst}, Spread{7, 7}
			u := &used{by: map[place]int64{}}
			var tally limiter.Tally
			refused, now := 0, int64(1_800_000_000)
			for range 3000 {
				now += random.Int64N(3) * random.Int64N(5)
				after, v := p.Step(time.Unix(now, 0), tally, 1)
				require.Equal(t, v.Admitted, u.room(terms, now, 0, quota, false))
				if tally = after; v.Admitted {
					u.by[place{random.IntN(3), now / 60}]++
					u.owe(terms, now, quota)
				} else {
					refused++
				}
			}
			require.Greater(t, refused, 100)
		})
	}
}

// Where it is not known, the oracle calls no refusal wrong that may be right, and no admission.
func TestRoomErrsInFavourOfTheServer(t *testing.T) {
	for _, c := range []struct {
		name        string
		before, now int64
		unanswered  int64
		quota       Spread
		touched     bool
		room, may   bool
	}{
		{name: "new", quota: Spread{5, 5}, room: true, may: true},
		{name: "the last one", now: 4, quota: Spread{5, 5}, room: true, may: true},
		{name: "used up", now: 5, quota: Spread{5, 5}},
		{name: "two thirds of the last window count", before: 6, now: 1, quota: Spread{5, 5}},
		{name: "less than two thirds", before: 6, quota: Spread{5, 5}, room: true, may: true},
		{name: "it hangs on the quota", now: 5, quota: Spread{5, 6}, may: true},
		{name: "it hangs on an answer", now: 4, unanswered: 1, quota: Spread{5, 5}, may: true},
		{name: "a clock was wrong: all may count", before: 4, now: 1, quota: Spread{5, 5}, touched: true, may: true},
		{name: "a clock was wrong, and all of it has room", before: 3, now: 1, quota: Spread{5, 5}, touched: true, room: true, may: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &used{by: map[place]int64{{1, 9}: c.before, {2, 10}: c.now}, unanswered: map[int64]int64{10: c.unanswered}}
			terms := &Terms{Window: 60}
			require.Equal(t, c.room, u.room(terms, 620, 0, c.quota, c.touched))
			require.Equal(t, c.may, u.may(terms, 620, c.quota))
		})
	}
	u, terms := &used{by: map[place]int64{}}, &Terms{Window: 60, Burst: 2}
	u.owe(terms, 600, Spread{6, 12})
	require.True(t, u.room(terms, 600, 0, Spread{6, 6}, false))
	require.False(t, u.room(terms, 600, 0, Spread{6, 12}, false), "a higher quota has a smaller bucket")
	require.False(t, u.room(terms, 600, permitted, Spread{6, 6}, false), "a clock may have been behind")
	require.False(t, u.room(terms, 600, 0, Spread{6, 6}, true))
}

// A limit of failures has room of its own, and a wrong password is charged to both.
func TestFailures(t *testing.T) {
	o, l := judges(&Terms{Window: 60, Quota: NewQuotas(9), Wrong: &Terms{Window: 60, Quota: NewQuotas(1)}})
	l.Honest = true
	over := step{"", no, house.Decision{Reason: "over-limit"}, ""}
	asks(o, l, step{"", http.StatusUnauthorized, house.Decision{Reason: "x", Admitted: true}, ""}, over)
	require.Empty(t, o.early, "of failures there was one")
	asks(o, l, step{"", ok, house.Decision{Reason: "x", At: 120}, ""}, step{"", no, house.Decision{Reason: "over-limit", At: 120}, ""})
	require.Len(t, o.early, 1)
	o.Close(180)
	require.Equal(t, map[string]*Reached{"honest on /p": {1, 9, 0}, "honest on /failed": {1, 1, 0}}, o.Worst)
}

func TestBounds(t *testing.T) {
	const at = 100 * 60
	own, room := house.Decision{Reason: "x", Own: true, At: at}, house.Decision{Reason: "x", Room: true, At: at}
	admit := func(n, place int, d house.Decision, shows string) (all []step) {
		for range n {
			d.Reason, d.Place, d.At = "x", place, at
			all = append(all, step{shows, ok, d, ""})
		}
		return all
	}
	shared := house.Decision{}
	for _, c := range []struct {
		name  string
		terms Terms
		do    func(o *Oracle, l *Who)
		kind  string
		want  Reached
	}{
		{"as much as it may", Terms{}, func(o *Oracle, l *Who) { asks(o, l, append(admit(30, 0, shared, ""), admit(30, 1, shared, "")...)...) }, "drops on /p", Reached{30, 30, 0}},
		{"one more", Terms{}, func(o *Oracle, l *Who) { asks(o, l, append(admit(30, 0, shared, ""), admit(31, 1, shared, "")...)...) }, "drops on /p", Reached{31, 30, 1}},
		{"a bound that is one lower", Terms{}, func(o *Oracle, l *Who) { o.Slack = -1; asks(o, l, admit(30, 0, shared, "")...) }, "drops on /p", Reached{30, 29, 1}},
		{"an instance that began anew", Terms{}, func(o *Oracle, l *Who) { o.Restart(1, at); asks(o, l, admit(60, 1, shared, "")...) }, "drops on /p", Reached{60, 60, 0}},
		{"another one did", Terms{}, func(o *Oracle, l *Who) { o.Restart(1, at); asks(o, l, admit(31, 0, shared, "")...) }, "drops on /p", Reached{31, 30, 1}},
		{"the honest are one kind", Terms{}, func(o *Oracle, l *Who) { l.Honest = true; asks(o, l, admit(31, 0, shared, "")...) }, "honest on /p", Reached{31, 30, 1}},
		{"the waiting room", Terms{}, func(o *Oracle, l *Who) { asks(o, l, admit(6, 0, room, "")...) }, "drops on /p, waited", Reached{6, 6, 0}},
		{"more than the waiting room", Terms{}, func(o *Oracle, l *Who) { asks(o, l, admit(7, 0, room, "")...) }, "drops on /p, waited", Reached{7, 6, 1}},
		{"a tally", Terms{}, func(o *Oracle, l *Who) { asks(o, l, admit(30, 2, own, "a")...) }, "drops on /p, bought", Reached{30, 30, 0}},
		{"more than that", Terms{}, func(o *Oracle, l *Who) { asks(o, l, admit(31, 2, own, "a")...) }, "drops on /p, bought", Reached{31, 30, 1}},
		{"it is whole elsewhere", Terms{}, func(o *Oracle, l *Who) { asks(o, l, append(admit(30, 0, own, "a"), admit(31, 1, own, "a")...)...) }, "drops on /p, bought", Reached{31, 30, 1}},
		{"two tallies", Terms{}, func(o *Oracle, l *Who) { asks(o, l, append(admit(30, 1, own, "a"), admit(31, 1, own, "b")...)...) }, "drops on /p, bought", Reached{31, 30, 1}},
		{"a tally on an instance that began anew", Terms{}, func(o *Oracle, l *Who) { o.Restart(0, at); asks(o, l, admit(60, 0, own, "a")...) }, "drops on /p, bought", Reached{60, 60, 0}},
		{"a tally that has ended", Terms{}, func(o *Oracle, l *Who) {
			late := own
			late.At = ends + 60
			asks(o, l, step{"a", ok, late, ""})
		}, "drops on /p, bought", Reached{1, 0, 1}},
		{"nothing was bought", Terms{}, func(o *Oracle, l *Who) { asks(o, l, admit(1, 0, own, "")...) }, "drops on /p, bought", Reached{1, 0, 1}},
		{"a bucket and its burst", Terms{Burst: 8}, func(o *Oracle, l *Who) { asks(o, l, admit(38, 0, shared, "")...) }, "drops on /p", Reached{38, 38, 0}},
		{"more than its burst", Terms{Burst: 8}, func(o *Oracle, l *Who) { asks(o, l, admit(39, 0, shared, "")...) }, "drops on /p", Reached{39, 38, 1}},
		{"a quota that was higher for a moment", Terms{}, func(o *Oracle, l *Who) {
			o.terms["p"].Quota.Change(40)()
			asks(o, l, admit(1, 0, shared, "")...)
			o.terms["p"].Quota.Change(30)()
			asks(o, l, admit(39, 0, shared, "")...)
		}, "drops on /p", Reached{40, 40, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.terms.Window, c.terms.Quota = 60, NewQuotas(30)
			o, l := judges(&c.terms)
			c.do(o, l)
			o.Close(at)
			require.Empty(t, o.Worst, "the window is not over")
			o.Close(ends + 120)
			require.Equal(t, map[string]*Reached{c.kind: &c.want}, o.Worst)
			require.Empty(t, o.used, "nothing stays")
			require.Empty(t, o.starts)
		})
	}
}

// An exact policy has one count for all instances, and its tallies are judged when all is over.
func TestExact(t *testing.T) {
	for n, want := range map[int]Reached{2: {2, 2, 0}, 3: {3, 2, 1}} {
		o, l := judges(&Terms{Window: 1 << 50, Quota: NewQuotas(2), Exact: true})
		o.Restart(0, 60)
		for i := range n {
			asks(o, l, step{"", ok, house.Decision{Reason: "x", Place: i, At: 60}, ""})
		}
		asks(o, l, step{"", ok, house.Decision{Reason: "x", Degraded: true}, ""})
		o.Close(120)
		require.Empty(t, o.Worst)
		o.Close(math.MaxInt64)
		require.Equal(t, map[string]*Reached{"drops on /p": &want}, o.Worst, "what no counter has decided is not in it")
	}
	o, l := judges(&Terms{Window: 1 << 50, Quota: NewQuotas(2), Exact: true})
	l.Honest = true
	asks(o, l, step{"", no, house.Decision{Reason: string(middleware.Overloaded)}, ""})
	asks(o, l, step{"", http.StatusServiceUnavailable, house.Decision{Reason: string(middleware.CounterDown), Degraded: true}, ""})
	require.Empty(t, o.early, "load is no failure")
	asks(o, l, step{"", no, house.Decision{Reason: string(middleware.OverLimit)}, ""})
	require.Len(t, o.early, 1, "refused with room")
}
