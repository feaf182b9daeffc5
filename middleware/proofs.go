// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
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
func (e *engine) proofCookie(id [4]byte, proof string, age int64) string {
	return e.cookieName + proofSuffix + hex.EncodeToString(id[:]) + "=" + proof + "; Max-Age=" + strconv.FormatInt(age, 10) + e.cookieAttributes
}

// proofReason names the refusals of package pow for clients and logs, and tells the log of what no
// client can be blamed for. What is malformed is no different to a client from what is wrong.
func (e *engine) proofReason(now time.Time, who *subject, receipt *pow.Receipt, err error) Reason {
	switch {
	case errors.Is(err, pow.ErrForged):
		e.secretUnknown(now, who.id)
		return ProofSecretUnknown
	case errors.Is(err, pow.ErrAhead):
		e.clockDiffers(now, receipt.Issued.Sub(now))
		return ProofClockDiffers
	case errors.Is(err, pow.ErrExpired):
		return ProofExpired
	case errors.Is(err, pow.ErrBinding):
		return ProofClientChanged
	}
	return ProofWrong
}
