package middleware

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// proof is what came of the proof that a request shows.
type proof struct {
	good   bool // verified; in EveryRequest that is all
	opened bool // it opened a family, or one that is open, to be charged: shown.own[index]
	index  int
	spend  *storeless.Proof // EveryRequest: what is spent if the request is admitted
}

// prove verifies the proofs of r, and redeems the first that is good. One that
// is not accepted is as if absent; d.Proof says why.
func (e *engine) prove(q *inquiry, d *Decision, r *http.Request) {
	proofs, byCookie := e.proofs(r)
	for _, text := range proofs {
		if q.proof.good {
			return
		}
		receipt, err := e.challenge.issuer.Verify(q.now, e.binding(q.who), text)
		if err != nil {
			d.Proof = proofReason(err)
			continue
		}
		d.Proof = e.accept(q, &receipt)
	}
	if byCookie {
		// A browser sends it along whether the form has need of it or not: it adds a
		// family, and does not choose it.
		q.proof.opened = false
	}
}

// maxProofs is how many proofs of a request are looked at: one is enough for our
// clients, and one for each policy of a stack for others.
const maxProofs = 4

// accept redeems a good proof. The reason is "" if that succeeds.
func (e *engine) accept(q *inquiry, receipt *pow.Receipt) Reason {
	if e.challenge.mode != EveryRequest {
		own, sale := e.redeem(q, receipt)
		if !sale.Granted {
			return saleReason(&sale)
		}
		q.proof.opened = true
		q.proof.index = q.shown.add(e, q.now, own, storeless.Tally{})
	}
	q.proof.good = true
	if e.memory != nil {
		id := append([]byte{kindProof}, receipt.ID[:]...)
		q.proof.spend = &storeless.Proof{Key: e.memory.Key(id), Expires: receipt.Expires}
	}
	return ""
}

// saleReason says why a good proof opened no family.
func saleReason(s *storeless.Sale) Reason {
	if s.Saturated {
		return MemoryFull
	}
	return ProofPriceRisen
}

// redeem opens the family of a receipt, if it is worth its price now.
func (e *engine) redeem(q *inquiry, receipt *pow.Receipt) (token.Own, storeless.Sale) {
	ends := receipt.Issued.Add(token.OwnLife(e.base.policy))
	own := token.Own{Expires: ends.Unix(), Bound: e.boundTo(&q.id)}
	copy(own.ID[:], receipt.ID[:])
	work, surge := int64(receipt.Work), e.challenge.surge
	if surge != nil {
		work = surge.Worth(q.now, work, mostWork)
	}
	var buyers [1 + storeless.MaxWide]storeless.Buyer
	// The sale is kept in mind for as long as the proof can be shown again, not as
	// the family lives: days of sales would fill the cells for them.
	sale := storeless.Redeem(e.memory, e.challenge.prices, q.now, e.buyers(q, buyers[:0]), e.ownKey(own.ID), receipt.Expires, work)
	if sale.Granted && !sale.Held && surge != nil {
		surge.Sold(q.now)
	}
	if sale.Saturated {
		e.warnSaturated(q.now)
	}
	return own, sale
}

// buyers are the identity and its networks.
func (e *engine) buyers(q *inquiry, list []storeless.Buyer) []storeless.Buyer {
	if e.memory == nil {
		return list
	}
	list = append(list, storeless.Buyer{Key: e.memory.Key(q.who), Crowds: 1})
	if q.nets[0].Policy != nil {
		list = append(list,
			storeless.Buyer{Key: q.nets[0].Key, Crowds: e.net56},
			storeless.Buyer{Key: q.nets[1].Key, Crowds: e.net48})
	}
	return list
}

// sells reports whether the policy sells families.
func (e *engine) sells() bool { return e.challenge != nil && e.challenge.mode != EveryRequest }

// boundTo reports whether own families of id are good for id alone.
func (e *engine) boundTo(id *Identity) bool {
	return id.kind != kindAddress || e.challenge != nil && e.challenge.bindOwn
}

// proofs returns the first proofs of the fields, of which a proxy may have joined
// several by commas, or else of the cookies that the redeem endpoint has set, for
// browsers that cannot send fields along with a form.
func (e *engine) proofs(r *http.Request) (proofs []string, byCookie bool) {
	if lines := r.Header[ProofHeader]; len(lines) > 0 {
		for _, line := range lines {
			for more := true; more && len(proofs) < maxProofs; {
				var piece string
				piece, line, more = strings.Cut(line, ",")
				proofs = append(proofs, strings.Trim(piece, " \t"))
			}
		}
		return proofs, false
	}
	if e.carriage == CarryHeader {
		return nil, false
	}
	for value := range cookies(r.Header["Cookie"], e.proofCookie) {
		if len(proofs) < maxProofs {
			proofs = append(proofs, value)
		}
	}
	return proofs, true
}

// proofReason names the refusals of package pow for clients and logs. What is
// malformed or forged is no different to a client from what is wrong.
func proofReason(err error) Reason {
	switch {
	case errors.Is(err, pow.ErrExpired):
		return ProofExpired
	case errors.Is(err, pow.ErrBinding):
		return ProofClientChanged
	}
	return ProofWrong
}

// offer issues the challenge that goes with a refusal. Where no family is for
// sale, it says when one will be, if that is before the limits give way.
func (e *engine) offer(q *inquiry, x *exchange) {
	c, d := e.challenge, &x.decision
	work := c.work
	if c.mode != EveryRequest {
		var buyers [1 + storeless.MaxWide]storeless.Buyer
		sale := storeless.Quote(e.memory, c.prices, q.now, e.buyers(q, buyers[:0]))
		if sale.Price == 0 {
			if d.RetryAfter == 0 || sale.Wait < d.RetryAfter {
				d.RetryAfter = sale.Wait
			}
			if d.Status == http.StatusForbidden { // a proof would help, and cannot be had
				d.Reason, d.Status = SoldOut, http.StatusTooManyRequests
				d.RetryAfter = jittered(d.RetryAfter)
			}
			return
		}
		work = sale.Price
	}
	if c.surge != nil && work > 0 {
		work = c.surge.Work(q.now, work, mostWork)
	}
	challenge, err := c.issuer.Issue(q.now, e.binding(q.who), uint64(work))
	if err != nil {
		e.warn(&e.alarms.issue, q.now, "cannot issue a challenge", "error", err)
		return
	}
	if c.path != "" && !e.mounted.Load() {
		e.warn(&e.alarms.unmounted, q.now, "a challenge names the URLs below Challenge.Path, where nothing answers", "remedy", "mount Middleware.Endpoints there")
	}
	d.Challenge = &challenge
	x.fields.values[iChallenge] = challenge.Header() + ";policy=" + q.tier.policy.Name()
}
