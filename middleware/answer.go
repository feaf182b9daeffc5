// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
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

// answerFieldsOf returns the fields about a charge. A refusal charges nothing: it has news only for a
// client that showed less than we know. One that showed nothing good gets no token of it: what it
// would be told it may drop again, as it has dropped, or never had, what came before; and who sends
// garbage would have us sign for each piece.
func (e *engine) answerFieldsOf(now time.Time, who *subject, shown *credentials, c *charged) answerFields {
	fields := answerFields{standings: &c.verdict}
	if c.verdict.Admitted || shown.good() && who.tier.policy.Exceeds(now, c.tally, c.shown) {
		fields.own, fields.tally, fields.paid = c.own, &c.tally, c.opened
	}
	return fields
}

// answerCharge answers a request about which there is nothing to say but its charge.
func (e *engine) answerCharge(now time.Time, dc *decisionContext, who *subject, shown *credentials, c *charged) {
	e.answer(now, dc, who, shown, e.answerFieldsOf(now, who, shown, c), offerFields{})
}

// answer writes all fields of a decision that a limit could be asked about; for all else see
// concludeUncharged. What is computed is cut from a single string, so that a request costs one
// allocation for it.
func (e *engine) answer(now time.Time, dc *decisionContext, who *subject, shown *credentials, fields answerFields, offers offerFields) {
	d, f := &dc.decision, &dc.reply.Fields
	var stack [768]byte // of a token and its cookie, but for the longest; zeroing it costs
	b := stack[:0]

	if !e.carriage.quiet {
		f.Lines[reply.Policy] = who.tier.field
		if fields.standings != nil && e.carriage.fields.has(RateLimitFields) {
			b = appendRateLimit(b, who.tier.names, fields.standings)
		}
	}
	rate := len(b)
	if d.RetryAfter > 0 && !e.shadow {
		b = strconv.AppendInt(b, int64(d.RetryAfter/time.Second), 10)
	}
	retry := len(b)
	if fields.tally != nil && e.carriage.transport != MemoryOnly {
		b = who.appendToken(b, fields.own, fields.tally)
	}
	tok := len(b)
	header, cookie := e.carriage.channels(shown)
	if cookie && tok > retry {
		b = e.carriage.appendCookieStart(b, who, shown, fields.own)
		b = e.carriage.appendCookieEnd(b, b[retry:tok], e.expires(fields)-now.Unix())
	}
	all := string(b)
	e.note(d, who, fields, all[retry:tok])
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
		a := dc.decision.withExtras()
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
	if e.carriage.fields != RateLimitFields && !e.carriage.quiet && fields.standings != nil {
		e.carriage.answerMore(now, &f.Values, who, fields.standings)
	}
}

// concludeUncharged concludes a request that no limit can be asked about, by nobody or at a
// negative cost. Who asks is told no more than when to come again.
func (e *engine) concludeUncharged(dc *decisionContext, v *verdict) {
	dc.decision.conclude(v)
	if v.retryAfter > 0 && !e.shadow {
		dc.reply.Fields.Lines[reply.Retry] = strconv.FormatInt(int64(v.retryAfter/time.Second), 10)
	}
}

// channels says where the token goes.
func (c *carriage) channels(shown *credentials) (header, cookie bool) {
	if shown.outside {
		return true, false
	}
	switch c.transport {
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

// navigates reports whether the request is a browser's own, for a page: by a link, a form or
// the address bar. The answer's fields are for nobody to read, but its cookie is kept.
// Scripts cannot say so (Fetch Metadata; the name is a forbidden request-header), and a program
// that does shall keep cookies.
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

// note has the token that is sent known by sight, if the client has shown a good one: who drops tokens drops this one
// too, and who comes but once would cost a look at a place in memory that nobody has looked at for long.
func (e *engine) note(d *record, who *subject, fields answerFields, tok string) {
	if e.sight == nil || d.tokens == 0 || fields.own != nil {
		return
	}
	if rest, ok := who.holder.Rest(tok); ok {
		e.sight.Note(e.base.policy, who.key, rest, fields.tally)
	}
}

// expires returns when the token of the answer stops to matter, in Unix seconds.
func (e *engine) expires(fields answerFields) int64 {
	if fields.own != nil {
		return fields.own.Expires
	}
	return e.carried.Expires(*fields.tally)
}

// appendCookieEnd appends a token to the start of its cookie, and the rest, which is that of cookieParts.
func (c *carriage) appendCookieEnd(b, tok []byte, maxAge int64) []byte {
	b = append(b, tok...)
	b = append(b, "; Max-Age="...)
	b = strconv.AppendInt(b, max(1, maxAge), 10)
	return append(b, c.cookieAttributes...)
}

// answerMore fills in the fields of those who choose others than the default: they cost
// allocations of their own.
func (c *carriage) answerMore(now time.Time, f *reply.Values, who *subject, v *limiter.Verdict) {
	of, p := c.fields, who.tier.policy
	tight := tightest(v, p.Len())
	limit, remaining, seconds := atOnce(p.Limit(tight)), v.Limits[tight].Remaining, int64(v.Limits[tight].Reset/time.Second)
	if of.has(RateLimitDraft7) {
		f.Other(reply.Combined, fmt.Sprintf("limit=%d, remaining=%d, reset=%d", limit, remaining, seconds))
	}
	if of.has(unitsOfX) {
		f.Other(reply.XLimit, strconv.FormatInt(limit, 10))
		f.Other(reply.XRemaining, strconv.FormatInt(remaining, 10))
		if of.has(XRateLimitInUnixTime) {
			seconds += now.Unix()
		}
		f.Other(reply.XReset, strconv.FormatInt(seconds, 10))
	}
}

// tightest returns the limit in force that leaves least, and of those the one that does
// so for longest.
func tightest(v *limiter.Verdict, n int) int {
	best := 0
	for i := 1; i < n; i++ {
		a, b := &v.Limits[i], &v.Limits[best]
		if a.Shadow || a.Remaining == unknown {
			continue
		}
		if b.Shadow || b.Remaining == unknown || a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.Reset > b.Reset {
			best = i
		}
	}
	return best
}
