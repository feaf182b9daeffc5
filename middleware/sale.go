// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// readProofs verifies the proofs of a request, and redeems the first that is good. One that is
// not accepted is as if absent.
func (e *engine) readProofs(now time.Time, q *question, who *subject, shown *credentials) {
	shown.proof.rest, shown.proof.byCookie = proofsIn(q, shown)
	e.nextProof(now, who, shown)
	if shown.proof.byCookie {
		// A browser sends it along whether the form has need of it or not: it adds a
		// tally, and does not choose it.
		shown.proof.opened = false
	}
}

// nextProof redeems the first good one of the proofs that are left.
func (e *engine) nextProof(now time.Time, who *subject, shown *credentials) {
	p := &shown.proof
	p.good = false
	for len(p.rest) > 0 && !p.good {
		text := p.rest[0]
		p.rest = p.rest[1:]
		receipt, err := e.challenge.issuer.Verify(now, e.binding(who.bytes), text)
		if err != nil {
			p.reason = e.proofReason(now, who, &receipt, err)
			continue
		}
		e.acceptProof(now, who, shown, &receipt)
	}
}

// acceptProof redeems a good proof.
func (e *engine) acceptProof(now time.Time, who *subject, shown *credentials, receipt *pow.Receipt) {
	p := &shown.proof
	if e.challenge.mode != EveryRequest {
		own, sale := e.redeem(now, who, receipt)
		if !sale.Granted {
			p.reason = saleReason(&sale)
			return
		}
		p.opened = true
		p.index = shown.addOwn(now, e.base.pass.policy, own, storeless.Tally{})
	}
	p.good, p.reason = true, ""
	p.id = [4]byte(receipt.ID[:4])
	if e.memory != nil && e.challenge.mode == EveryRequest {
		id := append([]byte{kindProof}, receipt.ID[:]...)
		p.spend = &storeless.Proof{Key: e.memory.Key(id), Expires: receipt.Expires.Add(e.gate.longestWait())}
	}
}

// proofsIn returns the first proofs of the fields, of which a proxy may have joined
// several by commas, or else of the cookies that the redeem endpoint has set, for
// browsers that cannot send fields along with a form.
func proofsIn(q *question, shown *credentials) (texts []string, byCookie bool) {
	lines := q.proofs()
	if len(lines) == 0 {
		return shown.proofCookies, true
	}
	for _, line := range lines {
		if len(line) > maxLine {
			continue // no list of proofs: to look for them would take as long as the line is
		}
		for more := true; more && len(texts) < maxProofs; {
			var piece string
			piece, line, more = strings.Cut(line, ",")
			texts = append(texts, strings.Trim(piece, " \t"))
		}
	}
	return texts, false
}

// proofCookie returns the cookie of a proof, or with age 0 the one that takes it away.
func (c *carriage) proofCookie(id [4]byte, proof string, age int64) string {
	return c.cookieName + proofSuffix + hex.EncodeToString(id[:]) + "=" + proof + "; Max-Age=" + strconv.FormatInt(age, 10) + c.cookieAttributes
}

// proofReason names the refusals of package pow for clients and logs, and tells the log of what no
// client can be blamed for. What is malformed is no different to a client from what is wrong.
func (e *engine) proofReason(now time.Time, who *subject, receipt *pow.Receipt, err error) Reason {
	switch {
	case errors.Is(err, pow.ErrForged):
		e.checks.otherSecret(now, who.id, e.codec)
		return ProofSecretUnknown
	case errors.Is(err, pow.ErrAhead):
		e.checks.clockAhead(now, receipt.Issued.Sub(now))
		return ProofClockDiffers
	case errors.Is(err, pow.ErrExpired):
		return ProofExpired
	case errors.Is(err, pow.ErrBinding):
		return ProofClientChanged
	}
	return ProofWrong
}

// The crowds of an IPv6 /56 and /48, where an address is one: so many honest clients,
// times Challenge.Crowd, each is expected to hide. They are no quota factors. Work is not
// bought by the /64: a home has a /56 and a tunnel broker gives a /48 away, and each
// with as many crowds as quotas would buy 64 times what an address can. A carrier that
// gives each subscriber one /64 has hundreds of them in a /56 and thousands in a /48:
// they pay a higher price when many are new within the hour, and are served. What each
// choice costs either side is in internal/price/README.md.
const (
	crowds56 = 2
	crowds48 = 8
)

// surgeMost is what a surge may raise a challenge to: what a browser does. The element and
// package client refuse more, and a storm elsewhere must not lock them out. Only what is
// sold to an address itself makes it dearer.
const surgeMost = 1 << 28

// binding is what a challenge of this policy is bound to. The kind keeps a
// proof that buys a request from opening a tally.
func (e *engine) binding(holder []byte) pow.Binding {
	kind := "family"
	if e.challenge.mode == EveryRequest {
		kind = "request"
	}
	// A copy, or the bytes of every subject would have to live on the heap.
	return pow.Binding{Client: slices.Clone(holder), Route: e.base.policy.Name(), Tier: kind}
}

// redeem opens the tally of a receipt, if it is worth its price now.
func (e *engine) redeem(now time.Time, who *subject, receipt *pow.Receipt) (token.Own, storeless.Sale) {
	ends := receipt.Issued.Add(e.passLife)
	own := token.Own{Expires: ends.Unix(), Bound: e.bindsOwn(who.id)}
	copy(own.ID[copy(own.ID[:], receipt.Serial[:]):], receipt.Mark[:])
	work, surge := int64(receipt.Work), e.challenge.surge
	if surge != nil {
		work = surge.Worth(now, work, surgeMost)
	}
	var buyers [storeless.MaxBuyers]storeless.Buyer
	// The sale is remembered for as long as the proof can be shown again, not as the
	// tally lives: days of sales would fill the cells for them.
	sale := e.memory.Redeem(now, e.challenge.prices, e.buyers(who, buyers[:0]), e.ownKey(own.ID), receipt.Expires, work)
	if sale.Granted && !sale.Held {
		e.proofs.accepted.Add(1)
		if surge != nil {
			surge.Sold(now, e.surgeNetwork(who))
		}
	}
	if sale.Saturated {
		e.checks.warn(now, salesFull)
	}
	return own, sale
}

// surgeNetwork names the network of which a surge counts a part of the budget at most: the
// IPv4 /16 or IPv6 /29. A /48 is to be had for nothing, five of them too, and a /29 is what
// a member of a registry gets for the asking; hosts that rent their addresses by the hour
// have them in few /16s. A crowd that comes from one network alone raises nothing: it pays
// what its addresses and its own /56 and /48 have bought.
func (e *engine) surgeNetwork(who *subject) storeless.Key {
	id := who.id
	if id.kind != kindAddress || nat64Local.Contains(id.Addr()) {
		return e.memory.Key(who.bytes)
	}
	bits := 29
	if id.is4 {
		bits = 16
	}
	p, _ := id.Addr().Prefix(bits)
	a := p.Addr().As16()
	return e.memory.Key(append([]byte{kindNet, byte(bits)}, a[:]...))
}

// saleReason says why a good proof opened no tally.
func saleReason(s *storeless.Sale) Reason {
	if s.Saturated {
		return MemoryFull
	}
	return ProofPriceRisen
}

// buyers are the identity and its networks.
func (e *engine) buyers(who *subject, list []storeless.Buyer) []storeless.Buyer {
	if e.memory == nil {
		return list
	}
	list = append(list, storeless.Buyer{Key: e.memory.Key(who.bytes), Crowds: 1, Block: who.block, Provider: who.id.provider()})
	if who.wide() {
		list = append(list,
			storeless.Buyer{Key: who.networks[0].Key, Crowds: crowds56},
			storeless.Buyer{Key: who.networks[1].Key, Crowds: crowds48})
	}
	return list
}

// ownKey names an own tally in memory, the same for every client that shows it.
func (e *engine) ownKey(id [9]byte) storeless.Key { return e.keyOfOwn(id, kindOwn, 0) }

func (e *engine) keyOfOwn(id [9]byte, kind, class byte) storeless.Key {
	if e.memory == nil {
		return 0
	}
	b := [2 + len(id)]byte{kind, class}
	copy(b[2:], id[:])
	return e.memory.Key(b[:])
}

// offer issues the challenge that goes with a refusal, at the price of this moment, or
// says when the price will be one that a challenge can ask for.
func (e *engine) offer(now time.Time, who *subject) offer {
	c := e.challenge
	work := c.work
	if c.mode != EveryRequest {
		var buyers [storeless.MaxBuyers]storeless.Buyer
		sale := e.memory.Quote(now, c.prices, e.buyers(who, buyers[:0]))
		if sale.Price == 0 {
			return offer{soldOut: true, wait: sale.Wait}
		}
		work = sale.Price
	}
	if c.surge != nil && work > 0 {
		work = c.surge.Work(now, work, surgeMost)
	}
	challenge, err := c.issuer.Issue(now, e.binding(who.bytes), uint64(work))
	if err != nil {
		e.checks.warn(now, challengeFailed, "error", err)
		return offer{}
	}
	if !who.dry { // nobody is sent it
		e.proofs.issue(work)
	}
	if c.path != "" && !e.mounted.Load() {
		e.checks.warn(now, endpointsUnmounted)
	}
	return offer{challenge: &challenge, field: challenge.Header() + ";policy=" + who.tier.policy.Name()}
}
