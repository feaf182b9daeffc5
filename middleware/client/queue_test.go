// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	require.Equal(t, trying, <-behind[front+1].called, "who comes back stands in front")
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
			require.True(t, q.payer != nil || len(q.scouts) > 0, "seed %d: %d wait for nobody", seed, len(wait))
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
