// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/lab/judge"
	"github.com/tallystick/tallystick/proof/players"
)

// A holder is an honest client of /form that has bought a tally, and asks for more than it is good for. Its balancer
// spreads what it sends evenly or, where it stays, keeps it on another instance than the one that has sold its tally.
// It sees all of its answers: so it knows of each whether it was just.
type holder struct {
	*caller
	stays  bool
	home   int64             // the process that has sold it
	tally  oracle            // of what it has bought
	shares [instances]oracle // and of what each instance has admitted of that

	// A process that was started in the window knows nothing of the share that the one before has admitted.
	there   int64 // the state of world.away as the window began
	renewed bool  // some process was
}

// use has a holder ask for all that its tally is good for, and its address, and some more.
func (h *holder) use(i int, t turn) {
	h.roll(t)
	at := i + int(t.round/ofCycle) // of one that stays: in the next cycle it is put on another one
	if !h.ownsStill() {
		if !t.canBuy() {
			return
		}
		first := h.buy(at+1, at)
		if first == "" {
			return
		}
		h.has(first, at+1, t)
	}
	for n := range t.share(2*int(quotaOf(form, 1)) + 5) {
		if !h.stays {
			at = n
		}
		a := h.asks(at, t)
		if a.Status == 0 || a.Admitted() {
			continue
		}
		if !h.stays || !t.canBuy() || !h.shareIsSpent(at%instances) || !h.move(a, at, t) {
			return
		}
	}
}

// has notes a tally that was bought.
func (h *holder) has(token string, home int, t turn) {
	h.token, h.home = token, h.w.numbers[home%instances].Load()
	h.tally, h.shares = oracle{}, [instances]oracle{}
	for i := range h.shares {
		h.shares[i].aligned = true
	}
	h.roll(t)
}

func (h *holder) roll(t turn) {
	at := h.w.clocks.right.Load() / window
	if at != h.tally.at {
		h.there = h.w.away.Now()
	}
	h.tally.roll(at, !t.calm)
	for i := range h.shares {
		h.shares[i].roll(at, !t.calm)
	}
}

// shareIsSpent says that an instance which is not the home has had its share of the tally, by the lower of the quotas, and that the
// tally had room: so the share alone has refused it.
func (h *holder) shareIsSpent(instance int) bool {
	return !h.isHome(instance) && h.shares[instance].last >= chance.Share(quotaOf(form, 0), instances, 1) && h.tally.last < quotaOf(form, 0)
}

// isHome says that an instance has sold the tally, and was not started anew since then.
func (h *holder) isHome(instance int) bool { return h.w.numbers[instance].Load() == h.home }

// asks sends one request, and judges the answer.
func (h *holder) asks(at int, t turn) players.Answer {
	w := h.w
	during := w.quotas[form].Begin()
	a := h.Ask(players.Request{To: at, Tokens: []string{h.token}})
	if a.Status == 0 {
		h.tally.lost++
		h.shares[at%instances].lost++
		return a
	}
	charged := a.Admitted() && partIn(a) == bought
	h.renewed = !w.away.Stood(h.there)
	refused, excess := h.judge(at%instances, h.isHome(at%instances), charged, t, during())
	if refused {
		h.unjust(a, fmt.Sprintf("%+v, %+v", h.tally, h.shares))
	}
	if excess {
		w.Excess.Note("%s: %+v, %+v", h.name, h.tally, h.shares)
	}
	if charged {
		h.note(at, a)
	}
	return a
}

// note notes an answer that was charged to its tally.
func (h *holder) note(at int, a players.Answer) {
	h.tally.used()
	h.shares[at%instances].used()
	if t := a.Token(); t != "" {
		h.token = t
	}
}

// judge says of a request whether it was unjust not to charge its tally, or to charge it. At home the tally is all that
// counts; on another instance also the share, which is what chance hardly ever exceeds.
func (h *holder) judge(instance int, home, charged bool, t turn, quota judge.Spread) (unjust, excess bool) {
	must, may := h.tally.must(t.elapsed, quota, !t.calm), h.tally.may(t.elapsed, quota, !t.calm)
	if !home {
		share := judge.Spread{Least: chance.Share(quota.Least, instances, 1), Most: chance.Share(quota.Most, instances, 1)}
		must = must && h.shares[instance].must(t.elapsed, share, !t.calm)
		may = may && (h.renewed || h.shares[instance].may(t.elapsed, share, !t.calm))
	}
	return must && !charged, charged && !may
}

// move has a holder do what the refusal by a share offers: it works, and what it gets for that is at home here.
func (h *holder) move(a players.Answer, at int, t turn) (moved bool) {
	a = h.work(at, a, h.token)
	if !a.Admitted() || partIn(a) != bought || a.Token() == "" {
		h.unjust(a, "its share is used up, and it is sold no further tally")
		return false
	}
	h.owns(a.Token(), at)
	h.has(a.Token(), at, t)
	h.note(at, a)
	h.w.Moved.Add(1)
	return true
}
