package middleware

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// readProofs verifies the proofs of r, redeems the first that is good, and returns the
// credentials with it. One that is not accepted is as if absent.
func (e *engine) readProofs(now time.Time, r *http.Request, who *subject, shown credentials) credentials {
	texts, byCookie := proofsIn(r, &shown)
	for _, text := range texts {
		if shown.proof.good {
			return shown
		}
		receipt, err := e.challenge.issuer.Verify(now, e.binding(who.bytes), text)
		if err != nil {
			shown.proof.reason = proofReason(err)
			continue
		}
		shown = e.acceptProof(now, who, shown, &receipt)
	}
	if byCookie {
		// A browser sends it along whether the form has need of it or not: it adds a
		// tally, and does not choose it.
		shown.proof.opened = false
	}
	return shown
}

// acceptProof redeems a good proof.
func (e *engine) acceptProof(now time.Time, who *subject, shown credentials, receipt *pow.Receipt) credentials {
	p := &shown.proof
	if e.challenge.mode != EveryRequest {
		own, sale := e.redeem(now, who, receipt)
		if !sale.Granted {
			p.reason = saleReason(&sale)
			return shown
		}
		p.opened = true
		p.index = shown.addOwn(now, e.carried, own, storeless.Tally{})
	}
	p.good, p.reason = true, ""
	if e.memory != nil && e.challenge.mode == EveryRequest {
		id := append([]byte{kindProof}, receipt.ID[:]...)
		p.spend = &storeless.Proof{Key: e.memory.Key(id), Expires: receipt.Expires}
	}
	return shown
}

// proofsIn returns the first proofs of the fields, of which a proxy may have joined
// several by commas, or else of the cookies that the redeem endpoint has set, for
// browsers that cannot send fields along with a form.
func proofsIn(r *http.Request, shown *credentials) (texts []string, byCookie bool) {
	lines := r.Header[ProofHeader]
	if len(lines) == 0 {
		return shown.proofCookies, true
	}
	for _, line := range lines {
		for more := true; more && len(texts) < maxProofs; {
			var piece string
			piece, line, more = strings.Cut(line, ",")
			texts = append(texts, strings.Trim(piece, " \t"))
		}
	}
	return texts, false
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
