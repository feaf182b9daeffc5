// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/internal/lab/judge"
	"github.com/tallystick/tallystick/middleware"
)

// A holder is an honest client of /form that has bought a tally, and asks for more than it is good for. Its balancer
// spreads what it sends evenly or, where it stays, keeps it on another instance than the one that has sold its tally.
// It sees all of its answers: so it knows of each whether it was just.
type holder struct {
	*caller
	stays  bool
	home   int
	tally  oracle            // of what it has bought
	shares [instances]oracle // and of what each instance has admitted of that
}

// canBuy says that a challenge of one instance is good for another one.
func (t turn) canBuy() bool { return t.calm && t.elapsed.Least == t.elapsed.Most }

// use has a holder ask for all that its tally is good for, and its address, and some more.
func (h *holder) use(i int, t turn) {
	w := h.w
	h.roll(t)
	at := i + int(t.round/ofCycle) // of one that stays: in the next cycle it is put on another one
	if h.token != "" && expiry(h.token) <= w.clocks.right.Load()+12*window {
		h.token = "" // it would end before it may buy the next
	}
	if h.token == "" {
		if !t.canBuy() {
			return
		}
		first, err := h.buy(at+1, at)
		if first == "" {
			w.unjust.Note(fmt.Sprintf("%s: its proof is not accepted: %v", h.name, err))
			return
		}
		h.has(first, at+1, t)
	}
	for n := range t.share(2*int(quotaOf(form, 1)) + 5) {
		if !h.stays {
			at = n
		}
		a := h.ask(at, t)
		if a.header == nil || a.admitted() {
			continue
		}
		if !h.stays || !t.canBuy() || !h.shareIsSpent(at%instances) {
			return
		}
		if !h.move(a, at, t) {
			return
		}
	}
}

// has notes a tally that was bought.
func (h *holder) has(token string, home int, t turn) {
	h.token, h.home = token, home%instances
	h.tally, h.shares = oracle{}, [instances]oracle{}
	h.roll(t)
}

func (h *holder) roll(t turn) {
	at := h.w.clocks.right.Load() / window
	h.tally.roll(at, !t.calm)
	for i := range h.shares {
		h.shares[i].roll(at, !t.calm)
	}
}

// shareIsSpent says that an instance which is not the home has had its share of the tally, by the lower of the quotas, and that the
// tally had room: so the share alone has refused it.
func (h *holder) shareIsSpent(instance int) bool {
	return instance != h.home && h.shares[instance].last >= chance.Share(quotaOf(form, 0), instances, 1) && h.tally.last < quotaOf(form, 0)
}

// ask sends one request, and judges the answer.
func (h *holder) ask(instance int, t turn) answer {
	w := h.w
	during := w.quotas[form].Begin()
	a, err := h.caller.ask(instance, http.MethodPost, "", "", middleware.TokenHeader, h.token)
	if err != nil {
		w.broken.Note(h.name + ": " + err.Error())
		return answer{}
	}
	unjust, excess := h.judge(instance%instances, a.admitted() && a.part == bought, t, during())
	if unjust {
		w.unjust.Note(fmt.Sprintf("%s: %d %s; %+v, %+v", h.name, a.status, a.why, h.tally, h.shares))
	}
	if excess {
		w.excess.Note(fmt.Sprintf("%s: %+v, %+v", h.name, h.tally, h.shares))
	}
	if a.admitted() && a.part == bought {
		h.note(instance, a)
	}
	return a
}

// note notes an answer that was charged to its tally.
func (h *holder) note(instance int, a answer) {
	h.tally.used()
	h.shares[instance%instances].used()
	if t := a.token(); t != "" {
		h.token = t
	}
}

// judge says of a request whether it was unjust not to charge its tally, or to charge it. At home the tally is all that
// counts; on another instance also the share, which is what chance hardly ever exceeds.
func (h *holder) judge(instance int, charged bool, t turn, quota judge.Spread) (unjust, excess bool) {
	must, may := h.tally.must(t.elapsed, quota, !t.calm), h.tally.may(t.elapsed, quota, !t.calm)
	if instance != h.home {
		share := judge.Spread{Least: chance.Share(quota.Least, instances, 1), Most: chance.Share(quota.Most, instances, 1)}
		must = must && h.shares[instance].must(t.elapsed, share, !t.calm)
		may = may && h.shares[instance].may(t.elapsed, share, !t.calm)
	}
	return must && !charged, charged && !may
}

// move has a holder do what the refusal by a share offers: it works, and what it gets for that is at home here.
func (h *holder) move(a answer, at int, t turn) (moved bool) {
	w := h.w
	proof, err := a.solve()
	if err == nil {
		a, err = h.caller.ask(at, http.MethodPost, "", "", middleware.TokenHeader, h.token, middleware.ProofHeader, proof)
	}
	if err != nil || !a.admitted() || a.part != bought || a.token() == "" {
		w.unjust.Note(fmt.Sprintf("%s: its share is used up, and it is sold no further tally: %d %s %v", h.name, a.status, a.why, err))
		return false
	}
	h.owns(a, at)
	h.has(a.token(), at, t)
	h.note(at, a)
	w.moved.Add(1)
	return true
}
