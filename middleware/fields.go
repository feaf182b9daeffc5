package middleware

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
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

// The fields that a decision may add, in the order in which they are set.
// Set-Cookie is apart: others may add cookies, and it is never replaced.
const (
	iPolicy = iota
	iRateLimit
	iToken
	iXLimit
	iXRemaining
	iXReset
	iCache
	iRetry
	numFields

	listed = iToken + 1 // the fields before are lists: each policy of a stack adds a line
)

var fieldNames = [numFields]string{
	iPolicy:     fieldPolicy,
	iRateLimit:  fieldRateLimit,
	iToken:      TokenHeader,
	iXLimit:     fieldXLimit,
	iXRemaining: fieldXRemaining,
	iXReset:     fieldXReset,
	iCache:      fieldCache,
	iRetry:      fieldRetry,
}

// fields are the values that a decision adds to the response; "" is not sent.
// They are kept, because a handler may wipe them from the header map before it
// writes.
type fields struct {
	values [numFields]string
	cookie string
	slots  [numFields]string // what the header map's slices point to

	// Where several middlewares are stacked, each must know of the others: the
	// response carries a line for each policy, whoever writes it. inner is
	// atomic, because http.TimeoutHandler may run the inner one on a goroutine
	// of its own and leave it behind.
	outer *fields
	inner atomic.Pointer[fields]
}

// noStore goes with every token: Set-Cookie alone does not keep a response out
// of shared caches (RFC 9111 section 7.3).
const noStore = "no-store"

// within makes f the fields of a middleware inside of that of outer. All values
// of f must be set.
func (f *fields) within(outer *fields) {
	f.outer = outer
	outer.inner.Store(f)
}

// set puts the fields into h, in place of whatever stands there.
func (f *fields) set(h http.Header) {
	if f.outer != nil || f.inner.Load() != nil {
		f.setStack(h)
		return
	}
	for i, value := range f.values {
		if value == "" {
			continue
		}
		f.slots[i] = value
		// Of capacity one, so that a handler's Add cannot reach the next slot.
		h[fieldNames[i]] = f.slots[i : i+1 : i+1]
	}
	f.setCookie(h)
}

// setStack is set for all middlewares of a stack, the outermost first. Lists get
// a line for each; of the rest, the innermost value stands.
func (f *fields) setStack(h http.Header) {
	stack := f.stack()
	for i, name := range fieldNames {
		var lines []string
		for _, g := range stack {
			switch value := g.values[i]; {
			case value == "":
			case i < listed:
				lines = append(lines, value)
			default:
				lines = []string{value}
			}
		}
		if lines != nil {
			h[name] = lines
		}
	}
	for _, g := range stack {
		g.setCookie(h)
	}
}

// stack returns the fields of all middlewares that f's is stacked with, the
// outermost first. Seen from an outer one, the inner one is the last that ran: a
// handler in between may serve several requests by it.
func (f *fields) stack() (all []*fields) {
	for g := f; g != nil; g = g.outer {
		all = append(all, g)
	}
	slices.Reverse(all)
	for g := f.inner.Load(); g != nil; g = g.inner.Load() {
		all = append(all, g)
	}
	return all
}

func (f *fields) setCookie(h http.Header) {
	if f.cookie != "" && !slices.Contains(h[fieldCookie], f.cookie) {
		h[fieldCookie] = append(h[fieldCookie], f.cookie)
	}
}

// drop takes the fields of the whole stack out of h again. The Cache-Control
// stays: it may be the handler's by now. So does Retry-After: only refusals have
// one, and they are for nobody to cache.
func (f *fields) drop(h http.Header) {
	for _, name := range fieldNames[:iCache] {
		delete(h, name)
	}
	for _, g := range f.stack() {
		if g.cookie == "" {
			continue
		}
		if rest := slices.DeleteFunc(h[fieldCookie], func(c string) bool { return c == g.cookie }); len(rest) > 0 {
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
		q, w := atOnce(l), int64(l.Window/time.Second)
		if l.Burst > 0 {
			w = (w*l.Burst + l.Quota - 1) / l.Quota
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q;q=%d;w=%d", l.Name, q, w)
	}
	return string(b)
}

// atOnce returns the most that may pass at once: what Remaining starts from.
func atOnce(l Limit) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Quota
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
		f.values[iPolicy] = t.field
		b = rate.write(b, func(b []byte) []byte { return appendRateLimit(b, t.names, v) })
	}
	if d.RetryAfter > 0 && !e.shadow {
		b = retry.write(b, func(b []byte) []byte { return strconv.AppendInt(b, int64(d.RetryAfter/time.Second), 10) })
	}
	var xRemaining, xReset span
	if e.quiet == Open && e.xRateLimit != NoXRateLimit {
		i := tightest(v, t.policy.Len())
		l, standing := t.policy.Limit(i), v.Limits[i]
		b = xs.write(b, func(b []byte) []byte { return strconv.AppendInt(b, atOnce(l), 10) })
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
	f.values[iCache] = noStore
	if !header {
		f.values[iToken] = ""
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
	f.values[iRateLimit] = all[rate.from:rate.to]
	f.values[iRetry] = all[retry.from:retry.to]
	f.values[iXLimit] = all[xLimit.from:xLimit.to]
	f.values[iXRemaining] = all[xRemaining.from:xRemaining.to]
	f.values[iXReset] = all[xReset.from:xReset.to]
	f.values[iToken] = all[tok.from:tok.to]
	f.cookie = all[cookie.from:cookie.to]
}

// appendRateLimit appends the RateLimit field: a List of Strings with the
// parameters r and t (draft-ietf-httpapi-ratelimit-headers-10, RFC 9651). A
// limit that nothing was used of has no t, since nothing is going to change. On
// a refusal only the limits that refused have one: Retry-After should not lie
// before any t, and the others may rise long after it.
func appendRateLimit(b []byte, names []string, v *storeless.Verdict) []byte {
	for i, name := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `";r=`...)
		b = strconv.AppendInt(b, v.Limits[i].Remaining, 10)
		if s := &v.Limits[i]; s.Reset > 0 && (s.Blocked || v.Wait == 0) {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, int64(s.Reset/time.Second), 10)
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
