// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/judge"
)

// A holder is an honest client of /form that has bought a tally, and asks for more than it is good for. Its balancer
// spreads what it sends evenly or, where it stays, keeps it on another instance than the one that has sold its tally.
// It sees all of its answers: so it knows of each whether it was just.
type holder struct {
	*caller
	stays bool
	tally oracle // of what it has bought
}

// use has a holder ask for all that its tally is good for, and its address, and some more.
func (h *holder) use(i int, t turn) {
	h.roll(t)
	at := i + int(t.round/ofCycle) // of one that stays: in the next cycle it is put on another one
	if !h.ownsStill() {
		if !t.canBuy() {
			return
		}
		if h.token = h.buy(at+1, at); h.token == "" {
			return
		}
		h.tally = oracle{}
		h.roll(t)
	}
	for n := range t.share(2*int(quotaOf(form, 1)) + 5) {
		if !h.stays {
			at = n
		}
		if a := h.asks(at, t); a.Status != 0 && !a.Admitted() {
			return
		}
	}
}

func (h *holder) roll(t turn) { h.tally.roll(h.w.clocks.right.Load()/window, !t.calm) }

// asks sends one request, and judges the answer.
func (h *holder) asks(at int, t turn) fleet.Answer {
	w := h.w
	during := w.quotas[form].Begin()
	a := h.Ask(fleet.Request{To: at, Tokens: []string{h.token}})
	if a.Status == 0 {
		h.tally.lost++
		return a
	}
	charged := a.Admitted() && partIn(a) == bought
	refused, excess := h.judge(charged, t, during())
	if refused {
		h.unjust(a, fmt.Sprintf("%+v", h.tally))
	}
	if excess {
		w.Excess.Note("%s: %+v", h.name, h.tally)
	}
	if charged {
		h.tally.used()
		if t := a.Token(); t != "" {
			h.token = t
		}
	}
	return a
}

// judge says of a request whether it was unjust not to charge its tally, or to charge it.
func (h *holder) judge(charged bool, t turn, quota judge.Spread) (unjust, excess bool) {
	must, may := h.tally.must(t.elapsed, quota, !t.calm), h.tally.may(t.elapsed, quota, !t.calm)
	return must && !charged, charged && !may
}
