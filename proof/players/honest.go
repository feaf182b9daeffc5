// SPDX-License-Identifier: Apache-2.0

package players

import (
	"cmp"

	"github.com/tallystick/tallystick/proof/fleet"
)

// An Honest client can do what an attacker can. It shows the newest token, works where it is asked to, and knows how
// many requests it was admitted.
type Honest struct {
	*Attacker
	Quota   int64  // of its tally, in a window
	Payable int64  // the most that it works for one proof, in hashes
	Token   string // the newest
	Owns    bool   // it has bought a tally
	Host    int    // the instance that its balancer keeps it on

	Fared
	used int64
}

// A Fared counts the outcomes of the requests of an honest client, or of many.
type Fared struct {
	Requests, Admitted int64
	Early              int64 // refused, though the client had a tally under its limit
	Proofs, Dearest    int64 // their number; the work of the dearest
}

// Add adds what became of others.
func (f *Fared) Add(o Fared) {
	f.Requests, f.Admitted, f.Early, f.Proofs = f.Requests+o.Requests, f.Admitted+o.Admitted, f.Early+o.Early, f.Proofs+o.Proofs
	f.Dearest = max(f.Dearest, o.Dearest)
}

// send sends one request, and judges the answer.
func (h *Honest) send(to int, proof string) fleet.Answer {
	got := h.Ask(fleet.Request{To: to, Tokens: []string{h.Token}, Proof: proof})
	if !got.Admitted() && proof == "" && h.used < h.Quota && h.Owns {
		h.Early++
	}
	h.Token = cmp.Or(got.Token(), h.Token)
	if own, _ := fleet.Claims(got.Token()); got.Admitted() && own != "" {
		h.Owns = true
	}
	return got
}

// Want sends one request, works if need be, and sends it again.
func (h *Honest) Want(to func() int) fleet.Answer {
	h.Requests++
	got := h.send(to(), "")
	for tries := 0; !got.Admitted() && tries < 10; tries++ {
		c, ok := got.Challenge()
		if !ok || int64(c.Work) > h.Payable {
			break
		}
		h.Proofs++
		h.Dearest = max(h.Dearest, int64(c.Work))
		got = h.send(to(), h.Solve(got))
	}
	if got.Admitted() {
		h.Fared.Admitted++
		h.used++
	}
	return got
}

// Connections sends requests over six connections. Each shows what the client had before all six. The
// first request goes alone.
func (h *Honest) Connections(requests int, to func() int) {
	h.Want(to)
	for sent := 1; sent < requests; {
		shown, last := h.Token, h.Token
		for range min(6, requests-sent) {
			h.Token = shown
			h.Want(to)
			last = h.Token
			sent++
		}
		h.Token = last
	}
}
