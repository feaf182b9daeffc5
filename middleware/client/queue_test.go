// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// till is a queue before a jar, without requests.
type till struct {
	t   *testing.T
	s   queues
	jar jar
	of  want
	now time.Time
	n   int // of tallies bought
}

func newTill(t *testing.T) *till {
	return &till{t: t, of: want{"o", 7}, now: time.Unix(1e9, 0)}
}

// refused is a place of a request that has just been sent and refused, with a
// challenge that lives for ten seconds.
func (l *till) refused() *place {
	_, sent := l.jar.show("o", 0)
	return &place{of: l.of, sent: sent, expires: l.now.Add(10 * time.Second), ttl: 10 * time.Second, called: make(chan role, 1)}
}

// come lets one come that has just been refused.
func (l *till) come() (*place, role) {
	p := l.refused()
	return p, l.s.come(l.now, p, &l.jar)
}

// again lets one come that was called and refused.
func (l *till) again(p *place) role {
	_, p.sent = l.jar.show("o", 0)
	p.expires, p.again = l.now.Add(p.ttl), true
	return l.s.come(l.now, p, &l.jar)
}

// buy files a tally with some room left.
func (l *till) buy(left int) {
	l.n++
	tok, ok := parseToken(ownToken("contact", fmt.Sprint(l.n), 1))
	require.True(l.t, ok)
	require.True(l.t, l.jar.keep("o", []kept{{windowToken: tok, sent: l.jar.sends, kind: l.of.kind, room: left, spent: left == 0}}))
}

// called returns what each place is called to, or waiting.
func called(places []*place) (list []role) {
	for _, p := range places {
		select {
		case e := <-p.called:
			list = append(list, e)
		default:
			list = append(list, waiting)
		}
	}
	return list
}

// queue lets one come that pays, and n that wait.
func (l *till) queue(n int) (payer *place, behind []*place) {
	payer, e := l.come()
	require.Equal(l.t, paying, e)
	for range n {
		p, e := l.come()
		require.Equal(l.t, waiting, e)
		behind = append(behind, p)
	}
	return payer, behind
}

func TestAsManyAreCalledAsThereIsRoomFor(t *testing.T) {
	for left, want := range map[int][]role{
		0:       {looking, waiting, waiting, waiting, waiting},
		1:       {trying, looking, waiting, waiting, waiting},
		3:       {trying, trying, trying, looking, waiting},
		5:       {trying, trying, trying, trying, trying},
		1000:    {trying, trying, trying, trying, trying},
		unknown: {looking, waiting, waiting, waiting, waiting},
	} {
		l := newTill(t)
		payer, behind := l.queue(5)
		l.buy(left)
		l.s.leave(l.now, payer, bought)
		require.Equal(t, want, called(behind), "room for %d", left)
	}
}

// One that looks and is refused pays; what it looked for was there today's price.
func TestWhoLooksPays(t *testing.T) {
	l := newTill(t)
	payer, behind := l.queue(5)
	l.buy(0)
	l.s.leave(l.now, payer, bought)
	require.Equal(t, []role{looking, waiting, waiting, waiting, waiting}, called(behind))
	require.Equal(t, paying, l.again(behind[0]))
	require.Equal(t, paying, l.again(behind[0]), "the price has risen")
	l.buy(2)
	l.s.leave(l.now, behind[0], bought)
	require.Equal(t, []role{trying, trying, looking, waiting}, called(behind[1:]))
}

// Each scout that is let in calls two more, until one is refused.
func TestLookingDoubles(t *testing.T) {
	l := newTill(t)
	payer, behind := l.queue(40)
	l.buy(unknown)
	l.s.leave(l.now, payer, bought)
	front := 0
	for _, looks := range []int{1, 2, 4, 8} {
		want := make([]role, len(behind)-front)
		for i := range looks {
			want[i] = looking
		}
		require.Equal(t, want, called(behind[front:]))
		for _, p := range behind[front : front+looks] {
			l.s.leave(l.now, p, served)
		}
		front += looks
	}
	called(behind[front : front+16])
	require.Equal(t, paying, l.again(behind[front]))
	require.Equal(t, waiting, l.again(behind[front+1]))
	l.s.leave(l.now, behind[front+2], served) // there is a payer: no more
	for _, e := range called(behind[front+16:]) {
		require.Equal(t, waiting, e)
	}
	l.buy(1)
	l.s.leave(l.now, behind[front], bought)
	require.Equal(t, trying, <-behind[front+1].called, "a request that comes back stands in front")
}

// A payer that is gone is followed by the next: which pays at once, where it has
// seen all that was bought, and looks, where it has not.
func TestNextPayer(t *testing.T) {
	for name, test := range map[string]struct {
		before func(l *till)
		how    outcome
		want   []role
	}{
		"gone":                        {func(*till) {}, gone, []role{paying, waiting, waiting}},
		"let in without a proof":      {func(*till) {}, served, []role{looking, looking, waiting}},
		"another has bought":          {func(l *till) { l.buy(0) }, gone, []role{looking, waiting, waiting}},
		"the next's challenge is old": {func(l *till) { l.now = l.now.Add(10 * time.Second) }, gone, []role{looking, waiting, waiting}},
		"nothing is for sale":         {func(*till) {}, closed, []role{trying, trying, trying}},
		"a proof buys one request":    {func(*till) {}, useless, []role{alone, alone, alone}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTill(t)
			payer, behind := l.queue(3)
			test.before(l)
			l.s.leave(l.now, payer, test.how)
			require.Equal(t, test.want, called(behind))
		})
	}
}

// Another request's refusal is no reason to give up while one pays.
func TestClosedWhileOnePays(t *testing.T) {
	l := newTill(t)
	payer, behind := l.queue(3)
	l.buy(0)
	l.s.leave(l.now, payer, bought)
	require.Equal(t, looking, <-behind[0].called)
	second, e := l.come()
	require.Equal(t, paying, e)
	l.s.leave(l.now, behind[0], closed)
	require.Equal(t, []role{waiting, waiting}, called(behind[1:]))
	l.s.leave(l.now, second, closed)
	require.Equal(t, []role{trying, trying}, called(behind[1:]))
	require.Empty(t, l.s.going)
}

// Room that is there for a late refusal is taken once.
func TestLateRefusals(t *testing.T) {
	l := newTill(t)
	var late []*place
	for range 4 {
		late = append(late, l.refused())
	}
	payer, _ := l.queue(0)
	l.buy(2)
	l.s.leave(l.now, payer, bought)
	require.Empty(t, l.s.going)
	var got []role
	for _, p := range late {
		got = append(got, l.s.come(l.now, p, &l.jar))
	}
	require.Equal(t, []role{trying, trying, looking, waiting}, got)
	// The refusal of one that has shown it says that there is no room.
	l.buy(9)
	_, e := l.come()
	require.Equal(t, paying, e)
	require.Equal(t, []role{waiting}, called(late[3:]))
}

// No request waits for one purchase longer than a challenge lives; the next
// purchase is another.
func TestOverdue(t *testing.T) {
	l := newTill(t)
	payer, behind := l.queue(3)
	at := func(s int) { l.now = time.Unix(1e9+int64(s), 0) }
	overdue := func(i int) role {
		e, longer := l.s.overdue(l.now, behind[i])
		require.Equal(t, e == waiting, longer > 0)
		return e
	}
	at(9)
	require.Equal(t, waiting, overdue(0))
	l.buy(0)
	l.s.leave(l.now, payer, bought)
	require.Equal(t, looking, <-behind[0].called)
	at(18)
	require.Equal(t, waiting, overdue(1), "nine seconds since the purchase")
	at(19)
	require.Equal(t, looking, overdue(1), "the one that looked is given up")
	require.Equal(t, trying, overdue(2), "and looks for itself")
	require.Equal(t, paying, l.again(behind[1]))
	require.Equal(t, waiting, l.again(behind[2]))
	l.s.leave(l.now, behind[0], bought) // too late to call later requests
	require.Equal(t, []role{waiting}, called(behind[2:]))
	l.buy(1)
	l.s.leave(l.now, behind[0], bought)
	require.Equal(t, trying, overdue(2), "called a moment before its time")
}

// Whatever happens: while some wait, one pays or looks; and in the end nothing is
// left.
func TestQueueNeverStalls(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		l := newTill(t)
		var wait, busy []*place
		took := func(p *place, e role) {
			if e == waiting {
				wait = append(wait, p)
			} else {
				busy = append(busy, p)
			}
		}
		pick := func(list *[]*place) *place {
			i := rnd.IntN(len(*list))
			p := (*list)[i]
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			return p
		}
		sort := func() {
			all := wait
			wait = nil
			for i, e := range called(all) {
				took(all[i], e)
			}
		}
		step := func(grow bool) {
			switch op := rnd.IntN(8); {
			case op < 3 && grow:
				p, e := l.come()
				took(p, e)
			case op == 3 && len(wait) > 0: // cancelled
				l.s.leave(l.now, pick(&wait), gone)
			case op == 4 && len(wait) > 0:
				l.now = l.now.Add(time.Duration(rnd.IntN(20)) * time.Second)
				p := pick(&wait)
				e, _ := l.s.overdue(l.now, p)
				took(p, e)
			case op == 5 && len(busy) > 0 && grow:
				p := pick(&busy)
				took(p, l.again(p))
			case len(busy) > 0:
				how := outcome(rnd.IntN(5))
				if how == bought {
					l.buy(rnd.IntN(6) - 1)
				}
				l.s.leave(l.now, pick(&busy), how)
			}
			sort()
			q := l.s.going[l.of]
			if q == nil {
				require.Empty(t, wait)
				return
			}
			require.Equal(t, len(wait), q.waiting.Len())
			require.True(t, q.payer != nil || len(q.scouts) > 0, "seed %d: %d wait for no call", seed, len(wait))
		}
		for range 300 {
			step(true)
		}
		for len(wait)+len(busy) > 0 {
			step(false)
		}
		require.Empty(t, l.s.going)
	}
}

// together lets requests pass only when n of them have come, then all.
func together(n int, h http.Handler) http.Handler {
	var come atomic.Int32
	gate := make(chan struct{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if come.Add(1) == int32(n) {
			close(gate)
		}
		<-gate
		h.ServeHTTP(w, r)
	})
}

func TestOneBuysForAll(t *testing.T) {
	for name, quiet := range map[string]bool{"by policy": false, "quiet, by route": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				const n = 50
				l := newLimiter(t, "contact", newcomers, n)
				l.quiet, l.delay = quiet, time.Second
				tr := &Transport{Base: inMemory{together(n, l)}}
				require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/contact"))
				require.Equal(t, 1, l.proofs)
				require.Equal(t, 2*n, l.requests)
				require.Empty(t, tr.queues.going)
			})
		})
	}
}

// A tally that is spent by the burst is followed by another, one at a time.
func TestBurstLargerThanATally(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const n = 30
		l := newLimiter(t, "contact", newcomers, 10)
		l.delay = time.Second
		tr := &Transport{Base: inMemory{together(n, l)}, MaxAttempts: 2}
		require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/contact"))
		require.Equal(t, 3, l.proofs)
	})
}

// A proof for every request: what one has paid says so to the others.
func TestEveryRequestPaysForItself(t *testing.T) {
	for name, silent := range map[string]bool{"with tokens": false, "without tokens": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				const n = 20
				l := newLimiter(t, "feedback", everyRequest, 1000)
				l.silent, l.delay = silent, time.Second
				tr := &Transport{Base: inMemory{together(n, l)}}
				start := time.Now()
				require.Equal(t, map[int]int{200: n}, burst(t, tr, n, "http://example.com/feedback"))
				require.Equal(t, 2*time.Second, time.Since(start), "the first, then all others at once")
				require.Equal(t, n, l.proofs)
				require.Equal(t, 2*n, l.requests)
			})
		})
	}
}

func TestPurchasesOfDifferentKindsAreApart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		a, b := newLimiter(t, "a", newcomers, 100), newLimiter(t, "b", newcomers, 100)
		a.delay = time.Hour // a handler, not a purchase, that takes long
		mux := http.NewServeMux()
		mux.Handle("/a", a)
		mux.Handle("/b", b)
		tr := &Transport{Base: inMemory{mux}}
		var wg sync.WaitGroup
		wg.Go(func() { burst(t, tr, 1, "http://example.com/a") })
		time.Sleep(time.Minute)
		start := time.Now()
		require.Equal(t, map[int]int{200: 1}, burst(t, tr, 1, "http://example.com/b"))
		require.Zero(t, time.Since(start))
		wg.Wait()
	})
}

func TestKinds(t *testing.T) {
	of := func(route uint64, policies ...string) uint64 {
		return kindOf(http.Header{"Ratelimit-Policy": policies}, route)
	}
	require.Equal(t, of(1, `"a";q=5`), of(2, `"a";q=5`))
	require.NotEqual(t, of(1, `"a";q=5`), of(1, `"b";q=5`))
	require.NotEqual(t, of(1, `"a";q=5`), of(1, `"a";q=5`, `"b";q=5`))
	require.NotEqual(t, of(1), of(2))
	require.Equal(t, of(1), of(1))
}

// A free turn is not given to a request that has gone.
func TestTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var tn turn
	for range 50 {
		require.ErrorIs(t, tn.take(ctx), context.Canceled)
	}
	require.NoError(t, tn.take(t.Context()))
	tn.pass()
}

// firstProof has another answer the first proof; if it does not, and all else, the limiter does.
func firstProof(l *limiter, another func(http.ResponseWriter, *http.Request) bool) http.Handler {
	var first atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Tallystick-Proof") == "" || !first.CompareAndSwap(false, true) || !another(w, r) {
			l.ServeHTTP(w, r)
		}
	})
}

// No request waits for a payer longer than a challenge lives, nor for a payer that is told to
// wait.
func TestPayerIsNotWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		payer func(http.ResponseWriter, *http.Request) bool
		wait  time.Duration
	}{
		"served slowly": {func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(time.Hour)
			return false
		}, 10 * time.Second},
		"sold out, for this one": {func(w http.ResponseWriter, r *http.Request) bool {
			time.Sleep(2 * time.Second)
			answer(429, "Retry-After", "20")(w, r)
			return true
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				l := newLimiter(t, "contact", newcomers, 100)
				tr := &Transport{Base: inMemory{firstProof(l, test.payer)}}
				var wg sync.WaitGroup
				wg.Go(func() { burst(t, tr, 1, "http://example.com/contact") })
				time.Sleep(time.Second)
				start := time.Now()
				require.Equal(t, map[int]int{200: 3}, burst(t, tr, 3, "http://example.com/contact"))
				require.Equal(t, test.wait, time.Since(start))
				wg.Wait()
				require.Equal(t, 1, l.proofs)
			})
		})
	}
}

// In a bubble the clock starts at midnight of 1 January 2000.
func TestRetryAfter(t *testing.T) {
	date := func(d time.Duration) string {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for name, c := range map[string]struct {
		maxWait time.Duration
		fields  []string
		want    time.Duration // zero: returned at once
		reason  string
	}{
		"seconds":            {0, []string{"Retry-After", "7"}, 7 * time.Second, ""},
		"at the default cap": {0, []string{"Retry-After", "30"}, 30 * time.Second, ""},
		"beyond it":          {0, []string{"Retry-After", "31"}, 0, waitTooLong},
		"at a cap":           {2 * time.Minute, []string{"Retry-After", "120"}, 2 * time.Minute, ""},
		"beyond a cap":       {2 * time.Minute, []string{"Retry-After", "121"}, 0, waitTooLong},
		"never":              {-1, []string{"Retry-After", "1"}, 0, waitTooLong},
		"none":               {0, nil, 0, noAdvice},
		"date":               {0, []string{"Retry-After", date(9 * time.Second)}, 9 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, requests := script(answer(429, c.fields...), answer(200))
				var seen events
				tr := &Transport{Base: inMemory{h}, MaxWait: c.maxWait, Observe: seen.observe}
				start := time.Now()
				resp := get(t, tr, "http://example.com")
				took := time.Since(start)
				if c.reason != "" {
					require.Equal(t, 429, resp.StatusCode)
					require.Zero(t, took)
					require.Equal(t, 1, requests())
					require.Equal(t, []string{"returning " + string(c.reason)}, seen.actions())
					return
				}
				require.Equal(t, 200, resp.StatusCode)
				require.GreaterOrEqual(t, took, c.want)
				require.LessOrEqual(t, took, c.want+min(c.want/10, 3*time.Second))
				require.Equal(t, []string{"waiting"}, seen.actions())
				require.Equal(t, took, seen.all[0].Wait)
				if c.maxWait > 0 {
					require.LessOrEqual(t, took, c.maxWait)
				}
			})
		})
	}
}

func TestJitter(t *testing.T) {
	distinct := map[time.Duration]bool{}
	for range 200 {
		d := jitter(10*time.Second, time.Hour)
		require.GreaterOrEqual(t, d, 10*time.Second)
		require.Less(t, d, 11*time.Second)
		distinct[d] = true
		require.Less(t, jitter(time.Hour, 2*time.Hour), time.Hour+3*time.Second)
		require.LessOrEqual(t, jitter(10*time.Second, 10*time.Second+5), 10*time.Second+5)
	}
	require.Greater(t, len(distinct), 100)
	require.Equal(t, time.Second, jitter(time.Second, time.Second))
}

// The waits of one request add up.
func TestMaxWaitIsInAll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, requests := script(answer(429, "Retry-After", "12"))
		tr := &Transport{Base: inMemory{h}}
		start := time.Now()
		require.Equal(t, 429, get(t, tr, "http://example.com").StatusCode)
		require.Equal(t, 3, requests(), "12 and 12 seconds fit into 30")
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
	})
}

func TestMaxAttempts(t *testing.T) {
	for limit, want := range map[int]int{0: 5, 1: 1, 2: 2, -1: 1, 9: 9} {
		kit.Bubble(t, func(t *testing.T) {
			h, requests := script(answer(429, "Retry-After", "1"))
			var seen events
			tr := &Transport{Base: inMemory{h}, MaxAttempts: limit, Observe: seen.observe}
			require.Equal(t, 429, get(t, tr, "http://example.com").StatusCode)
			require.Equal(t, want, requests())
			last := seen.all[len(seen.all)-1]
			require.Equal(t, noMoreAttempts, last.Reason)
			require.Equal(t, want, last.Attempt)
		})
	}
}

// Which responses are taken for "not processed".
func TestOnlyRefusalsAreSentAgain(t *testing.T) {
	const retry = "Retry-After"
	for name, c := range map[string]struct {
		method string
		first  http.HandlerFunc
		again  bool
		events []string
	}{
		"429 to a POST":                 {"POST", answer(429, retry, "1"), true, []string{"waiting"}},
		"503 to a GET":                  {"GET", answer(503, retry, "1"), true, []string{"waiting"}},
		"503 without a time":            {"GET", answer(503), false, nil},
		"503 to a PUT":                  {"PUT", answer(503, retry, "1"), true, []string{"waiting"}},
		"503 to a DELETE":               {"DELETE", answer(503, retry, "1"), true, []string{"waiting"}},
		"503 to a POST":                 {"POST", answer(503, retry, "1"), false, []string{"returning maybe-processed"}},
		"503 to a PATCH":                {"PATCH", answer(503, retry, "1"), false, []string{"returning maybe-processed"}},
		"503 to a method of his own":    {"LOCK", answer(503, retry, "1"), false, []string{"returning maybe-processed"}},
		"503 with a challenge":          {"POST", answer(503, retry, "1", pow.ChallengeField, "x"), false, []string{"returning maybe-processed"}},
		"403":                           {"GET", answer(403), false, nil},
		"403 with a time":               {"GET", answer(403, retry, "1"), false, nil},
		"403, challenge cannot be read": {"GET", answer(403, pow.ChallengeField, "x", retry, "1"), false, []string{"returning bad-challenge"}},
		"429, challenge cannot be read": {"GET", answer(429, pow.ChallengeField, "x", retry, "1"), true, []string{"waiting"}},
		"500 with a time":               {"GET", answer(500, retry, "1"), false, nil},
		"301 with a time":               {"GET", answer(301, retry, "1"), false, nil},
		"200 with a challenge":          {"GET", answer(200, pow.ChallengeField, "x", retry, "1"), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, requests := script(c.first, answer(200))
				var seen events
				tr := &Transport{Base: inMemory{h}, Observe: seen.observe}
				req := request(t, c.method, "http://example.com", nil)
				do(t, tr, req)
				require.Equal(t, c.again, requests() == 2)
				require.Equal(t, c.events, seen.actions())
			})
		})
	}
}

func TestContextEndsAWait(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, requests := script(answer(429, "Retry-After", "20"))
		tr := &Transport{Base: inMemory{h}}
		why := errors.New("the user went home")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(why) })
		req := kit.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com", nil))(t)
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		require.Nil(t, resp)
		require.ErrorIs(t, err, why)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, 1, requests())
	})
}

// What cannot be over before the deadline is not begun.
func TestDeadlineBeforeTheWaitEnds(t *testing.T) {
	for timeout, want := range map[time.Duration]int{4 * time.Second: 429, 5 * time.Second: 429, 5*time.Second + 1: 200} {
		kit.Bubble(t, func(t *testing.T) {
			h, _ := script(answer(429, "Retry-After", "5"), answer(200))
			c := &http.Client{Transport: &Transport{Base: inMemory{h}}, Timeout: timeout}
			start := time.Now()
			resp := kit.Must(c.Get("http://example.com"))(t)
			require.Equal(t, want, resp.StatusCode)
			if want == 429 {
				require.Zero(t, time.Since(start))
			}
			require.NoError(t, resp.Body.Close())
		})
	}
}
