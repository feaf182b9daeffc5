package middleware

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// The response fields, in net/http's canonical spelling, so that they are set
// without a search for capitals. Field names are case-insensitive.
const (
	fieldPolicy     = "Ratelimit-Policy"
	fieldRateLimit  = "Ratelimit"
	fieldXLimit     = "X-Ratelimit-Limit"
	fieldXRemaining = "X-Ratelimit-Remaining"
	fieldXReset     = "X-Ratelimit-Reset"
	fieldCookie     = "Set-Cookie"
	fieldCache      = "Cache-Control"
	fieldRetry      = "Retry-After"
)

// fields are the values that a decision adds to the response; "" is not sent.
// They are kept, because a handler may wipe them from the header map before it
// writes.
type fields struct {
	policy, rateLimit              string
	xLimit, xRemaining, xReset     string
	token, cookie, cache, retryFor string
	slots                          [8]string // what the header map's slices point to
}

// noStore goes with every token: Set-Cookie alone does not keep a response out
// of shared caches (RFC 9111 section 7.3).
const noStore = "no-store"

// set puts the fields into h, in place of whatever stands there.
func (f *fields) set(h http.Header) {
	n := 0
	put := func(key, value string) {
		if value == "" {
			return
		}
		f.slots[n] = value
		// Of capacity one, so that a handler's Add cannot reach the next slot.
		h[key] = f.slots[n : n+1 : n+1]
		n++
	}
	put(fieldPolicy, f.policy)
	put(fieldRateLimit, f.rateLimit)
	put(fieldXLimit, f.xLimit)
	put(fieldXRemaining, f.xRemaining)
	put(fieldXReset, f.xReset)
	put(TokenHeader, f.token)
	put(fieldCache, f.cache)
	put(fieldRetry, f.retryFor)
	if f.cookie != "" && !slices.Contains(h[fieldCookie], f.cookie) {
		h[fieldCookie] = append(h[fieldCookie], f.cookie)
	}
}

// drop takes the fields out of h again. The Cache-Control stays: it may be the
// handler's by now.
func (f *fields) drop(h http.Header) {
	for _, key := range [...]string{fieldPolicy, fieldRateLimit, fieldXLimit, fieldXRemaining, fieldXReset, TokenHeader} {
		delete(h, key)
	}
	if f.cookie != "" {
		if rest := slices.DeleteFunc(h[fieldCookie], func(c string) bool { return c == f.cookie }); len(rest) > 0 {
			h[fieldCookie] = rest
		} else {
			delete(h, fieldCookie)
		}
	}
}

// policyField returns the RateLimit-Policy field of a policy: a constant. For a
// bucket, q is what may pass at once and w the time in which it fills again, so
// that r never exceeds q.
func policyField(p *storeless.Policy) string {
	var b []byte
	for i := range p.Len() {
		l := p.Limit(i)
		q, w := l.Quota, int64(l.Window/time.Second)
		if l.Burst > 0 {
			q, w = l.Burst, (w*l.Burst+l.Quota-1)/l.Quota
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q;q=%d;w=%d", l.Name, q, w)
	}
	return string(b)
}

// fill writes all fields of a decision. All computed ones are cut from a single
// string, so that a request costs one allocation for them.
func (e *engine) fill(x *exchange, t *tier, now time.Time, holder *token.Holder, s *shown, tally *storeless.Tally) {
	d, f := &x.decision, &x.fields
	v := &d.verdict
	var stack [1280]byte
	b := stack[:0]

	var rate, retry, xs, tok, cookie span
	if e.quiet == Open {
		f.policy = t.field
		b = rate.write(b, func(b []byte) []byte { return appendRateLimit(b, t.names, v) })
	}
	if d.RetryAfter > 0 && !e.shadow {
		b = retry.write(b, func(b []byte) []byte { return strconv.AppendInt(b, int64(d.RetryAfter/time.Second), 10) })
	}
	var xRemaining, xReset span
	if e.quiet == Open && e.xRateLimit != NoXRateLimit {
		i := tightest(v, t.policy.Len())
		l, standing := t.policy.Limit(i), v.Limits[i]
		b = xs.write(b, func(b []byte) []byte { return strconv.AppendInt(b, max(l.Quota, l.Burst), 10) })
		b = xRemaining.write(b, func(b []byte) []byte { return strconv.AppendInt(b, standing.Remaining, 10) })
		reset := int64(standing.Reset / time.Second)
		if e.xRateLimit == ResetAsUnixTime {
			reset += now.Unix()
		}
		b = xReset.write(b, func(b []byte) []byte { return strconv.AppendInt(b, reset, 10) })
	}
	// A refusal charges nothing, so there is news only for a client that showed
	// less than we know.
	if e.quiet != NoToken && (d.Admitted || t.policy.Exceeds(now, *tally, s.tally)) {
		b = tok.write(b, func(b []byte) []byte { return holder.Append(b, tally) })
	}
	if tok.empty() {
		f.cut(string(b), rate, retry, xs, xRemaining, xReset, tok, cookie)
		return
	}
	header, viaCookie := e.channels(s)
	if viaCookie {
		b = cookie.write(b, func(b []byte) []byte {
			b = append(b, e.cookieName...)
			b = append(b, '=')
			b = append(b, b[tok.from:tok.to]...)
			b = append(b, "; Max-Age="...)
			b = strconv.AppendInt(b, max(1, t.policy.Expires(*tally)-now.Unix()), 10)
			return append(b, e.cookieAttributes...)
		})
	}
	f.cut(string(b), rate, retry, xs, xRemaining, xReset, tok, cookie)
	f.cache = noStore
	if !header {
		f.token = ""
	}
}

// A span is a part of the string that fields are cut from.
type span struct{ from, to int }

func (s *span) empty() bool { return s.from == s.to }

func (s *span) write(b []byte, value func([]byte) []byte) []byte {
	s.from = len(b)
	b = value(b)
	s.to = len(b)
	return b
}

func (f *fields) cut(all string, rate, retry, xLimit, xRemaining, xReset, tok, cookie span) {
	f.rateLimit = all[rate.from:rate.to]
	f.retryFor = all[retry.from:retry.to]
	f.xLimit = all[xLimit.from:xLimit.to]
	f.xRemaining = all[xRemaining.from:xRemaining.to]
	f.xReset = all[xReset.from:xReset.to]
	f.token = all[tok.from:tok.to]
	f.cookie = all[cookie.from:cookie.to]
}

// appendRateLimit appends the RateLimit field: a List of Strings with the
// parameters r and t (draft-ietf-httpapi-ratelimit-headers-10, RFC 9651). A
// limit that nothing was used of has no t, since nothing is going to change.
func appendRateLimit(b []byte, names []string, v *storeless.Verdict) []byte {
	for i, name := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `";r=`...)
		b = strconv.AppendInt(b, v.Limits[i].Remaining, 10)
		if reset := v.Limits[i].Reset; reset > 0 {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, int64(reset/time.Second), 10)
		}
	}
	return b
}

// tightest returns the limit that leaves least, and of those the one that does
// so for longest.
func tightest(v *storeless.Verdict, n int) int {
	best := 0
	for i := 1; i < n; i++ {
		a, b := &v.Limits[i], &v.Limits[best]
		if a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.Reset > b.Reset {
			best = i
		}
	}
	return best
}
