// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/pow"
)

// readProofs verifies the proofs of a request, and redeems the first that is good. One that is
// not accepted is as if absent.
func (q *call) readProofs() {
	q.shown.proof.rest, q.shown.proof.byCookie = proofsIn(q, &q.shown)
	q.nextProof()
	if q.shown.proof.byCookie {
		// A browser sends it along whether the form has need of it or not: it adds a
		// tally, and does not choose it.
		q.shown.proof.opened = false
	}
}

// nextProof redeems the first good one of the proofs that are left.
func (q *call) nextProof() {
	p := &q.shown.proof
	p.good = false
	for len(p.rest) > 0 && !p.good {
		text := p.rest[0]
		p.rest = p.rest[1:]
		receipt, err := q.challenge.issuer.Verify(q.at, q.challenge.binding(q.who.bytes), text)
		if err != nil {
			p.reason = q.proofReason(&receipt, err)
			continue
		}
		q.acceptProof(&receipt)
	}
}

// acceptProof redeems a good proof.
func (q *call) acceptProof(receipt *pow.Receipt) {
	p := &q.shown.proof
	if q.challenge.mode != EveryRequest {
		own, sale := q.redeem(receipt)
		if !sale.Granted {
			p.reason, p.busy = saleReason(&sale), p.busy || sale.Waits.Key != 0
			return
		}
		p.opened = true
		p.index = q.shown.addOwn(q.at, q.challenge.pass, own, limiter.Tally{})
	}
	p.good, p.reason = true, ""
	p.id = [4]byte(receipt.ID[:4])
	if q.challenge.memory != nil && q.challenge.mode == EveryRequest {
		id := append([]byte{kindProof}, receipt.ID[:]...)
		p.spend = &limiter.Proof{Key: q.challenge.memory.Key(id), Expires: receipt.Expires}
	}
}

// proofsIn returns the first proofs of the fields (a proxy may have joined several by commas), or
// else of the cookies that the redeem endpoint has set, for browsers that cannot send fields along
// with a form.
func proofsIn(q *call, shown *credentials) (texts []string, byCookie bool) {
	lines := q.proofLines()
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
func (c *transport) proofCookie(id [4]byte, proof string, age int64) string {
	return c.cookieName + proofSuffix + hex.EncodeToString(id[:]) + "=" + proof + "; Max-Age=" + strconv.FormatInt(age, 10) + c.cookieAttributes
}

// proofReason names the refusals of package pow for clients and logs, and tells the log of what no
// client can be blamed for. To a client a malformed proof is no different from a wrong one.
func (q *call) proofReason(receipt *pow.Receipt, err error) Reason {
	switch {
	case errors.Is(err, pow.ErrForged):
		q.challenge.checks.otherSecret(q.at, q.who.id, q.challenge.codec)
		return proofSecretUnknown
	case errors.Is(err, pow.ErrAhead):
		q.challenge.checks.clockAhead(q.at, receipt.Issued.Sub(q.at))
		return proofClockDiffers
	case errors.Is(err, pow.ErrExpired):
		return proofExpired
	case errors.Is(err, pow.ErrBinding):
		return proofClientChanged
	}
	return proofWrong
}

// The crowds of an IPv6 /56 and /48, where an address is one: each is expected to hide this many
// times Challenge.Crowd honest clients. They are no quota factors. Work is not bought by the /64: a
// home has a /56 and a tunnel broker gives a /48 away, and each with as many crowds as quotas would
// buy 64 times what an address can. A carrier that gives each subscriber one /64 has hundreds of
// them in a /56 and thousands in a /48: they pay a higher price when many are new within the hour,
// and are served. What each choice costs either side is in proof/lab/price/README.md.
const (
	crowds56 = 2
	crowds48 = 8
)

// binding is what a challenge of this policy is bound to. The kind keeps a
// proof that buys a request from opening a tally. It is a word of the wire: another one would refuse the challenges
// of an older instance.
func (c *challenger) binding(holder []byte) pow.Binding {
	kind := "family"
	if c.mode == EveryRequest {
		kind = "request"
	}
	// A copy, or the bytes of every subject would have to live on the heap.
	return pow.Binding{Client: slices.Clone(holder), Route: c.policy, Tier: kind}
}

// redeem opens the tally of a receipt, if it is worth its price now.
func (q *call) redeem(receipt *pow.Receipt) (token.Own, sale.Sale) {
	ends := receipt.Issued.Add(q.challenge.passLife)
	own := token.Own{ID: receipt.Serial, Expires: ends.Unix(), Bound: q.challenge.bindsOwn(q.who.id)}
	var buyers [sale.MaxBuyers]sale.Buyer
	// The sale is remembered for as long as the proof can be shown again, not as the
	// tally lives: days of sales would fill the cells for them.
	var sold sale.Sale
	q.untilHeard(func() {
		sold = q.challenge.prices.Redeem(q.at, q.challenge.memory, q.buyers(buyers[:0]), ownKey(q.challenge.memory, own.ID), receipt.Expires, int64(receipt.Work))
		q.hears.limit, q.hears.least = sold.Waits, waitingSales
	})
	if sold.Granted && !sold.Held {
		q.challenge.proofs.note(accepted)
	}
	if sold.Saturated {
		q.challenge.checks.warn(q.at, salesFull)
	}
	return own, sold
}

// waitingSales is how many sales to one buyer wait for peers at most.
const waitingSales = 16

// saleReason says why a good proof opened no tally.
func saleReason(s *sale.Sale) Reason {
	switch {
	case s.Saturated:
		return MemoryFull
	case s.Waits.Key != 0:
		return Overloaded
	}
	return proofPriceRisen
}

// buyers are the identity and its networks.
func (q *call) buyers(list []sale.Buyer) []sale.Buyer {
	if q.challenge.memory == nil {
		return list
	}
	list = append(list, sale.Buyer{Key: q.challenge.memory.Key(q.who.bytes), Crowds: 1, Provider: q.who.id.provider(), Hasty: q.shadow})
	if q.who.wide() {
		list = append(list,
			sale.Buyer{Key: q.who.networks[0].Key, Crowds: crowds56, Hasty: q.shadow},
			sale.Buyer{Key: q.who.networks[1].Key, Crowds: crowds48, Hasty: q.shadow})
	}
	return list
}

// ownKey names an own tally in memory, the same for every client that shows it.
func ownKey(m *limiter.Memory, id [6]byte) limiter.Key {
	if m == nil {
		return 0
	}
	b := [1 + len(id)]byte{kindOwn}
	copy(b[1:], id[:])
	return m.Key(b[:])
}

// highPrice is half a minute of a phone: more than most people wait for.
const highPrice = 1 << 24

// seePrice tells of a price that has risen so far that newcomers go away. A crowd and a bulk buyer do the same to
// it, and a school that locks itself out would do so unseen.
func (c *challenger) seePrice(now time.Time, s *sale.Sale) {
	price := s.Price
	if price == 0 {
		price = sale.MaxPrice
		c.proofs.highest.note(now, price)
	}
	if price > highPrice && price >= 2*c.work && c.checks.mayWrite(now, priceHigh) {
		c.checks.write(slog.LevelWarn, priceHigh, "", "work", price)
	}
}

// offer issues the challenge that goes with a refusal, at the price of this moment, or
// says when the price will be one that a challenge can ask for.
func (q *call) offer() offer {
	work := q.challenge.work
	if q.challenge.mode != EveryRequest {
		var buyers [sale.MaxBuyers]sale.Buyer
		sale := q.challenge.prices.Quote(q.at, q.challenge.memory, q.buyers(buyers[:0]))
		if !q.dry {
			q.challenge.seePrice(q.at, &sale)
		}
		if sale.Price == 0 {
			return offer{soldOut: true, wait: sale.Wait}
		}
		work = sale.Price
	}
	challenge, err := q.challenge.issuer.Issue(q.at, q.challenge.binding(q.who.bytes), uint64(work))
	if err != nil {
		q.challenge.checks.warn(q.at, challengeFailed, "error", err)
		return offer{}
	}
	if q.dry { // no client is sent it
		return offer{challenge: &challenge}
	}
	q.challenge.proofs.issue(q.at, work)
	if q.challenge.path != "" && !q.challenge.mounted.Load() && q.challenge.checks.namedBefore(q.at) {
		q.challenge.checks.warn(q.at, endpointsUnmounted)
	}
	return offer{challenge: &challenge, field: challenge.Header() + ";policy=" + q.who.tier.policy.Name()}
}
