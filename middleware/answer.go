// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/reply"
)

// answerFields are the response's fields about the charge. The zero value has none.
type answerFields struct {
	standings *limiter.Verdict // how the limits stand; nil: they were not asked
	own       *token.Own       // whose token it is; nil: the shared tally's
	tally     *limiter.Tally   // what the token says; nil: none is sent
	paid      bool             // the token was bought with this very request
}

// offerFields are the response's fields with ways on for a refused client. They are apart from
// answerFields, whose pointers must not reach the heap with them.
type offerFields struct{ challenge, roomCookie string }

// answerFieldsOf returns the fields about a charge. A refusal charges nothing, so it has news only
// for a client that showed less than we know. A client that showed no good token gets none with a
// refusal: it may drop that one too, and a client that sends garbage would have us sign for each
// piece.
func (q *call) answerFieldsOf(c *charged) answerFields {
	fields := answerFields{standings: &c.verdict}
	if c.verdict.Admitted || q.shown.good() && c.tally != c.shown && q.who.tier.policy.Exceeds(q.at, c.tally, c.shown) {
		fields.own, fields.tally, fields.paid = c.own, &c.tally, c.opened
	}
	return fields
}

// answerCharge answers a request about which there is nothing to say but its charge.
func (q *call) answerCharge(c *charged) {
	q.answer(q.answerFieldsOf(c), offerFields{})
}

// answer writes all fields of a decision that a limit could be asked about; for all else see
// concludeUncharged. All computed values are cut from a single string, so that they cost a request
// one allocation.
func (q *call) answer(fields answerFields, offers offerFields) {
	d, f := &q.dc.decision, &q.dc.reply.Fields
	var stack [768]byte // of a token and its cookie, but for the longest; zeroing it costs
	b := stack[:0]

	if !q.transport.quiet {
		f.Lines[reply.Policy] = q.who.tier.field
		if fields.standings != nil && q.transport.fields.has(RateLimitFields) {
			b = appendRateLimit(b, q.who.tier.names, fields.standings)
		}
	}
	rate := len(b)
	if d.RetryAfter > 0 && !q.shadow {
		b = strconv.AppendInt(b, int64(d.RetryAfter/time.Second), 10)
	}
	retry := len(b)
	if fields.tally != nil && q.transport.kind != MemoryOnly {
		b = q.who.appendToken(b, fields.own, fields.tally)
	}
	tok := len(b)
	header, cookie := q.transport.channels(&q.shown)
	if cookie && tok > retry {
		b = q.appendCookieStart(b, fields.own)
		b = q.transport.appendCookieEnd(b, b[retry:tok], q.expires(fields)-q.at.Unix())
	}
	all := string(b)
	q.note(d, fields, all[retry:tok])
	f.Lines[reply.RateLimit] = all[:rate]
	f.Lines[reply.Retry] = all[rate:retry]
	if header {
		f.Lines[reply.Token] = all[retry:tok]
	}
	switch f.Cookie = all[tok:]; {
	case offers.roomCookie == "":
	case d.Admitted:
		f.Cookie = offers.roomCookie
	default:
		a := q.dc.decision.withExtras()
		a.cookies = append(a.cookies, offers.roomCookie)
	}
	f.Other(reply.Challenge, offers.challenge)
	f.Paid = fields.paid
	if tok > retry || offers.roomCookie != "" {
		f.Lines[reply.Cache] = reply.NoStore
	}
	if d.Degraded {
		f.Other(reply.Degraded, "?1")
	}
	if q.transport.fields.has(XRateLimitInSeconds) && !q.transport.quiet && fields.standings != nil {
		answerX(&f.Values, q.who.tier.policy, q.who.tier.units, fields.standings)
	}
}

// concludeUncharged concludes a request that no limit can be asked about: its client is unknown, or
// its cost is negative. The client learns only when to come again.
func (q *call) concludeUncharged(v *verdict) {
	q.dc.decision.conclude(v)
	if v.retryAfter > 0 && !q.shadow {
		q.dc.reply.Fields.Lines[reply.Retry] = strconv.FormatInt(int64(v.retryAfter/time.Second), 10)
	}
}

// channels says where the token goes.
func (c *transport) channels(shown *credentials) (header, cookie bool) {
	if shown.outside {
		return true, false
	}
	switch c.kind {
	case HeaderOnly:
		return true, false
	case CookieOnly:
		return false, true
	case HeaderOrCookie:
		if shown.accepted > 0 {
			return shown.byHeader, shown.byCookie
		}
		if navigates(shown.fields) {
			return false, true
		}
	}
	return true, true
}

// navigates reports whether the request is a browser's own, for a page: by a link, a form or the
// address bar. No script reads the answer's fields, but the browser keeps its cookie. Scripts
// cannot say so (Fetch Metadata; the name is a forbidden request-header), and a program that does
// shall keep cookies.
func navigates(h http.Header) bool {
	mode := h["Sec-Fetch-Mode"]
	return len(mode) == 1 && mode[0] == "navigate"
}

// appendToken appends the token that says tally.
func (who *subject) appendToken(b []byte, own *token.Own, tally *limiter.Tally) []byte {
	if own != nil {
		return who.holder.AppendOwn(b, *own, tally)
	}
	return who.holder.Append(b, tally)
}

// note has the token that is sent known by sight, if the client has shown a good one. A client that drops tokens
// drops this one too, and for a client that comes once the note would cost a read of cold memory.
func (q *call) note(d *record, fields answerFields, tok string) {
	if q.tokenCache == nil || d.tokens == 0 || fields.own != nil || q.dry {
		return
	}
	if rest := q.codec.Rest(tok); rest != "" {
		q.tokenCache.Note(q.base.policy, q.who.key, rest, fields.tally)
	}
}

// expires returns when the token of the answer stops to matter, in Unix seconds.
func (e *engine) expires(fields answerFields) int64 {
	if fields.own != nil {
		return fields.own.Expires
	}
	return e.carried.Expires(fields.tally)
}

// appendCookieEnd appends a token to the start of its cookie, and the attributes of cookieParts.
func (c *transport) appendCookieEnd(b, tok []byte, maxAge int64) []byte {
	b = append(b, tok...)
	b = append(b, "; Max-Age="...)
	b = strconv.AppendInt(b, max(1, maxAge), 10)
	return append(b, c.cookieAttributes...)
}

// answerX fills in the X-RateLimit fields, which cost allocations of their own.
func answerX(f *reply.Values, p *limiter.Policy, units []string, v *limiter.Verdict) {
	tight := tightest(v, p, units)
	s := &v.Limits[tight]
	f.Other(reply.XLimit, strconv.FormatInt(atOnce(p.Limit(tight)), 10))
	f.Other(reply.XRemaining, strconv.FormatInt(s.Remaining, 10))
	f.Other(reply.XReset, strconv.FormatInt(int64(s.Reset/time.Second), 10))
}

// tightest returns the limit in force that leaves least, and of those the one that does
// so for longest. Where units differ, it is the one that has refused or leaves the smallest part of its quota.
func tightest(v *limiter.Verdict, p *limiter.Policy, units []string) int {
	best := 0
	left := func(i int) (int64, int64) { return v.Limits[i].Remaining, 1 }
	if units != nil {
		left = func(i int) (int64, int64) {
			if v.Limits[i].Blocked {
				return 0, 1
			}
			return v.Limits[i].Remaining, atOnce(p.Limit(i))
		}
	}
	for i := 1; i < p.Len(); i++ {
		a, b := &v.Limits[i], &v.Limits[best]
		if a.Shadow || a.Remaining == unknown {
			continue
		}
		n, of := left(i)
		m, than := left(best)
		if b.Shadow || b.Remaining == unknown || n*than < m*of || n*than == m*of && a.Reset > b.Reset {
			best = i
		}
	}
	return best
}
