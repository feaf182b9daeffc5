package middleware

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
)

// The problem types (RFC 9457). The first two are those that the RateLimit draft
// registers; the others are documented in the README.
const (
	typeQuotaExceeded  = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReduced        = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeCostAboveQuota = "https://github.com/tallystick/tallystick#cost-above-quota"
	typeUnknown        = "https://github.com/tallystick/tallystick#identity-unknown"
	typeProofRequired  = "https://github.com/tallystick/tallystick#proof-required"
)

// refuse answers a refused request. The fields are set.
func (e *engine) refuse(w http.ResponseWriter, r *http.Request, x *exchange, denial *Denial) {
	d := &x.decision
	h := w.Header()
	a := new(answer)
	forbidStoring(h)
	a.set(h, fieldCache, noStore)
	if d.Status == http.StatusUnauthorized {
		challenge := denial.WWWAuthenticate
		if challenge == "" {
			challenge = "Bearer"
		}
		h.Set("WWW-Authenticate", challenge)
	}
	if x.refusal != nil {
		h.Add(fieldCookie, x.refusal.ticket)
	} else if e.refused != nil || e.page != nil {
		x.refusal = &refusal{engine: e}
	}
	if e.refused != nil {
		e.refused.ServeHTTP(w, r)
		return
	}
	if len(h["Vary"]) > 0 {
		h.Add("Vary", "Accept")
	} else {
		a.set(h, "Vary", "Accept")
	}
	html := prefersHTML(r.Header["Accept"])
	if html && e.page != nil {
		e.page.ServeHTTP(w, r)
		return
	}
	e.writeRefusal(w, r, x, a, html)
}

// writeRefusal writes the built-in page, or the built-in problem details.
func (e *engine) writeRefusal(w http.ResponseWriter, r *http.Request, x *exchange, a *answer, html bool) {
	d, h := &x.decision, w.Header()
	body, contentType := a.body[:0], "application/problem+json"
	if html {
		contentType = "text/html; charset=utf-8"
		body = appendPage(body, d, r.Method)
	} else {
		body = e.appendProblem(body, x)
	}
	a.set(h, "Content-Type", contentType)
	a.set(h, "Content-Length", strconv.Itoa(len(body)))
	a.set(h, "X-Content-Type-Options", "nosniff")
	w.WriteHeader(d.Status)
	_, _ = w.Write(body) // the client is gone, or not; there is nobody to tell
}

// An answer is one allocation for what a refusal of our own is made of.
type answer struct {
	values [5]string
	n      int
	body   [512]byte
}

// set sets a field in place of whatever stands there, to a slice of capacity
// one, so that nobody's Add reaches the next value.
func (a *answer) set(h http.Header, name, value string) {
	a.values[a.n] = value
	a.n++
	h[name] = a.values[a.n-1 : a.n : a.n]
}

// appendProblem appends problem details. Every string in them is ours and needs
// no escaping; nothing of them depends on why a token was not accepted.
func (e *engine) appendProblem(b []byte, x *exchange) []byte {
	d := &x.decision
	problemType, title := "about:blank", http.StatusText(d.Status)
	switch d.Reason {
	case NoToken, MemoryFull, ProofReplayed:
		problemType, title = typeProofRequired, "Proof of work required"
	case OverLimit, SoldOut:
		problemType, title = typeQuotaExceeded, "Quota exceeded"
	case CostAboveQuota:
		problemType, title = typeCostAboveQuota, "Request costs more than the quota"
	case CounterDown, Overloaded:
		problemType, title = typeReduced, "Temporary reduced capacity"
	case IdentityUnknown:
		problemType, title = typeUnknown, "Cannot tell who is asking"
	}
	b = append(b, `{"type":"`...)
	b = append(b, problemType...)
	b = append(b, `","title":"`...)
	b = append(b, title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(d.Status), 10)
	switch {
	case d.RetryAfter > 0:
		b = append(b, `,"detail":"`...)
		b = appendWait(b, d.RetryAfter)
		b = append(b, '"')
	case d.Challenge != nil:
		b = append(b, `,"detail":"Solve the challenge and send the request again with the proof."`...)
	}
	if e.quiet == QuietOff && d.decided && (d.Reason == OverLimit || d.Reason == CostAboveQuota) {
		b = append(b, `,"violated-policies":[`...)
		first := true
		for i := range d.policy.Len() {
			if !d.standings[i].blocked() {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = strconv.AppendQuote(b, d.policy.Limit(i).Name)
		}
		b = append(b, ']')
	}
	if d.Challenge != nil || d.Reason == SoldOut || d.Proof != "" {
		b = append(b, `,"reason":"`...)
		b = append(b, cmp.Or(d.Proof, d.Reason)...)
		b = append(b, '"')
	}
	if d.Challenge != nil {
		b = e.appendChallenge(b, d.Challenge)
	}
	return append(b, "}\n"...)
}

// appendChallenge appends what a client needs to prove its work: the challenge,
// in the body too because scripts of other origins may not see the field, and
// where proofs are redeemed.
func (e *engine) appendChallenge(b []byte, c *pow.Challenge) []byte {
	b = append(b, ',')
	b = appendTerms(b, c)
	if path := e.challenge.path; path != "" {
		b = append(b, `,"challenge-url":"`...)
		b = append(b, path...)
		b = append(b, `challenge","redeem-url":"`...)
		b = append(b, path...)
		b = append(b, `redeem"`...)
	}
	return b
}

// appendTerms appends a challenge and its terms: seconds, and expected hashes.
func appendTerms(b []byte, c *pow.Challenge) []byte {
	b = append(b, `"challenge":"`...)
	b = append(b, c.Text...)
	b = append(b, `","ttl":`...)
	b = strconv.AppendInt(b, int64(c.TTL/time.Second), 10)
	b = append(b, `,"work":`...)
	return strconv.AppendUint(b, c.Work, 10)
}

// appendPage appends a page for people. It holds no script and no style, so any
// Content-Security-Policy lets it pass.
func appendPage(b []byte, d *Decision, method string) []byte {
	title, text := http.StatusText(d.Status), "This request cannot be served."
	switch d.Reason {
	case OverLimit, SoldOut:
		text = ""
	case NoToken, MemoryFull, ProofReplayed:
		text = "This page wants your browser to do a little work first, to show that it is worth serving. It needs JavaScript for that."
		if d.Wait > 0 {
			text += " Without it you can wait."
		}
	}
	b = append(b, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"...)
	safe := method == http.MethodGet || method == http.MethodHead
	if safe {
		b = appendRefresh(b, d)
	}
	b = append(b, "<title>"...)
	b = append(b, title...)
	b = append(b, "</title>\n<h1>"...)
	b = append(b, title...)
	b = append(b, "</h1>\n<p>"...)
	b = append(b, text...)
	if wait := d.wait(); wait > 0 {
		if text != "" {
			b = append(b, ' ')
		}
		b = appendWait(b, wait)
		if safe {
			b = append(b, ` <a href="">Load this page again.</a>`...) // the page's own URL
		} else {
			b = append(b, " Go back to keep what you have written."...)
		}
	}
	return append(b, "</p>\n"...)
}

// appendWait says how long to wait, in the largest unit that does not mislead.
func appendWait(b []byte, wait time.Duration) []byte {
	n, unit := int64(wait/time.Second), "second"
	switch {
	case wait >= 48*time.Hour:
		n, unit = int64((wait+24*time.Hour-1)/(24*time.Hour)), "day"
	case wait >= 2*time.Hour:
		n, unit = int64((wait+time.Hour-1)/time.Hour), "hour"
	case wait >= 2*time.Minute:
		n, unit = int64((wait+time.Minute-1)/time.Minute), "minute"
	}
	b = append(b, "Try again in "...)
	b = strconv.AppendInt(b, n, 10)
	b = append(b, ' ')
	b = append(b, unit...)
	if n != 1 {
		b = append(b, 's')
	}
	return append(b, '.')
}

// prefersHTML reports whether HTML has a higher quality in the Accept lines than
// JSON has (RFC 9110 section 12.5.1). At a tie, and for */* alone, problem
// details are the answer: scripts rarely say what they want, browsers always do.
func prefersHTML(accept []string) bool {
	var html, json quality
	for _, line := range accept {
		for n := 0; line != "" && n < maxPieces; n++ {
			var element string
			element, line, _ = strings.Cut(line, ",")
			mediaRange, parameters, _ := strings.Cut(element, ";")
			mediaRange = strings.Trim(mediaRange, " \t")
			q := parseQuality(parameters)
			is := func(name string) bool { return strings.EqualFold(mediaRange, name) }
			switch {
			case is("text/html"):
				html.note(q, 3)
			case is("text/*"):
				html.note(q, 2)
			case is("application/problem+json"), is("application/json"):
				json.note(q, 3)
			case is("application/*"):
				json.note(q, 2)
			case is("*/*"):
				html.note(q, 1)
				json.note(q, 1)
			}
		}
	}
	return html.thousandths > json.thousandths
}

// quality is the quality of a media type by its most specific range.
type quality struct{ thousandths, specific int }

func (q *quality) note(thousandths, specific int) {
	if specific > q.specific || specific == q.specific && thousandths > q.thousandths {
		*q = quality{thousandths, specific}
	}
}

// parseQuality returns the q parameter in thousandths; 1000 if there is none or
// it is none.
func parseQuality(parameters string) int {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		if thousandths, ok := parseQvalue(value); ok {
			return thousandths
		}
	}
	return 1000
}

// parseQvalue parses a qvalue of RFC 9110 section 12.4.2: "0" or "1", and up to
// three digits after the point.
func parseQvalue(s string) (thousandths int, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(fraction) > 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 16)
	return int(n), err == nil && n <= 1000
}
