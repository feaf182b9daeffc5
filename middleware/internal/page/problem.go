// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/words"
)

// The problem types (RFC 9457) are headings of two pages: the types that the RateLimit
// draft registers, and our own, which are documented where they point to. From the first
// release on that page may not move: its address is on the wire.
const (
	registered = "https://iana.org/assignments/http-problem-types#"
	documented = "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#"

	typeQuotaExceeded   = "quota-exceeded"
	typeReducedCapacity = "temporary-reduced-capacity"
	typeCostAboveQuota  = "cost-above-quota"
	typeIdentityUnknown = "identity-unknown"
	typeProofRequired   = "proof-required"
)

// problem returns the type and the title of a refusal's problem.
func (r *Refusal) problem() (kind, title string) {
	switch r.Cause {
	case ProofRequired:
		return documented + typeProofRequired, "Proof of work required"
	case QuotaExceeded:
		return registered + typeQuotaExceeded, "Quota exceeded"
	case CostAboveQuota:
		return documented + typeCostAboveQuota, "Request costs more than the quota"
	case ReducedCapacity:
		return registered + typeReducedCapacity, "Temporary reduced capacity"
	case IdentityUnknown:
		return documented + typeIdentityUnknown, "Cannot tell who is asking"
	}
	return "about:blank", http.StatusText(r.Status)
}

// AppendProblem appends problem details. Every string in them is ours and needs no
// escaping.
func AppendProblem(b []byte, r *Refusal) []byte {
	kind, title := r.problem()
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","title":"`...)
	b = append(b, title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	switch {
	case r.RetryAfter > 0:
		b = append(b, `,"detail":"`...)
		b = words.English.AppendWait(b, words.English.Page().Later, r.RetryAfter) // in English, as all of it
		b = append(b, '"')
	case r.Challenge.Text != "":
		b = append(b, `,"detail":"Solve the challenge and send the request again with the proof."`...)
	}
	if r.Violated != 0 {
		b = append(b, `,"violated-policies":[`...)
		first := true
		for i, name := range r.LimitNames {
			if r.Violated&(1<<i) == 0 {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(b, name...)
		}
		b = append(b, ']')
	}
	if r.Reason != "" {
		b = append(b, `,"reason":"`...)
		b = append(b, r.Reason...)
		b = append(b, '"')
	}
	if r.Challenge.Text != "" {
		b = append(b, ',')
		b = AppendTerms(b, r.Challenge)
		if r.Base != "" {
			b = append(b, `,"challenge-url":"`...)
			b = append(b, r.Base...)
			b = append(b, `challenge","redeem-url":"`...)
			b = append(b, r.Base...)
			b = append(b, `redeem"`...)
		}
	}
	return append(b, "}\n"...)
}

// AppendTerms appends a challenge and its terms: seconds, and expected hashes. They are
// in the body too because scripts of other origins may not see the field.
func AppendTerms(b []byte, c Challenge) []byte {
	b = append(b, `"challenge":"`...)
	b = append(b, c.Text...)
	b = append(b, `","ttl":`...)
	b = strconv.AppendInt(b, int64(c.TTL/time.Second), 10)
	b = append(b, `,"work":`...)
	return strconv.AppendUint(b, c.Work, 10)
}
