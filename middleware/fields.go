package middleware

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	iChallenge
	iDegraded
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
	iChallenge:  ChallengeHeader,
	iDegraded:   DegradedHeader,
	iCache:      fieldCache,
	iRetry:      fieldRetry,
}

// issued is what a decision adds to the response; "" is not sent. They are kept,
// because a handler may wipe them from the header map before it writes.
type issued struct {
	values [numFields]string
	cookie string
}

// fields are the values of a decision among those of others. They do not change once
// the handler runs: what comes after is put beside them, because http.TimeoutHandler
// may have left a handler behind that still refunds, while the response is written.
type fields struct {
	issued
	reissued atomic.Pointer[issued] // in their place; nil: none
	paid     bool                   // the token was bought with this very request
	ahead    bool                   // they were set before the handler ran
	sent     int8                   // how many that were
	settled  atomic.Bool            // they are what they are: the header is being written
	now      time.Time              // of the request

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

// set puts the fields into h, in place of whatever stands there.
func (f *fields) set(h http.Header) {
	if !f.alone() {
		f.setStack(h)
		return
	}
	v := f.current()
	for i := range v.values {
		if v.values[i] == "" {
			continue
		}
		// Of capacity one, so that a handler's Add cannot reach the next value.
		lines := v.values[i : i+1 : i+1]
		if i == iToken {
			lines = beside(h[TokenHeader], lines)
		}
		h[fieldNames[i]] = lines
	}
	f.setCookie(h)
}

// current returns the values that hold.
func (f *fields) current() *issued {
	if v := f.reissued.Load(); v != nil {
		return v
	}
	return &f.issued
}

// tokenStart begins every window token, whoever signed it: {"alg":"HS256","kid":" in
// base64url.
const tokenStart = "eyJhbGciOiJIUzI1NiIsImtpZCI6I"

// beside returns our tokens, and after them those that a reverse proxy has brought from
// an upstream that limits too: its client may have paid for one. Anything else of the
// name is replaced, like the other fields, and so are older tokens of ours, which have
// the header of ours.
func beside(there, ours []string) []string {
	for _, line := range there {
		header, _, _ := strings.Cut(line, ".")
		if len(line) <= token.MaxLen && strings.HasPrefix(header, tokenStart) &&
			!slices.ContainsFunc(ours, func(tok string) bool { return strings.HasPrefix(tok, header+".") }) {
			ours = append(ours, line)
		}
	}
	return ours
}

func (f *fields) setCookie(h http.Header) {
	if cookie := f.current().cookie; cookie != "" && !slices.Contains(h[fieldCookie], cookie) {
		h[fieldCookie] = append(h[fieldCookie], cookie)
	}
}

// drop takes the fields of the whole stack out of h again. The Cache-Control
// stays: it may be the handler's by now. So does Retry-After: only refusals have
// one, and they are for nobody to cache.
func (f *fields) drop(h http.Header) {
	for _, name := range fieldNames[:iCache] {
		delete(h, name)
	}
	for _, g := range f.stack(nil) {
		cookie := g.current().cookie
		if cookie == "" {
			continue
		}
		if rest := slices.DeleteFunc(h[fieldCookie], func(c string) bool { return c == cookie }); len(rest) > 0 {
			h[fieldCookie] = rest
		} else {
			delete(h, fieldCookie)
		}
	}
}

// fill writes all fields of a decision. What is computed is cut from a single
// string, so that a request costs one allocation for it. v is nil where the limits
// were not asked, tally where no token is to be sent, own where it is one of the
// shared family.
func (e *engine) fill(x *exchange, q *inquiry, v *storeless.Verdict, own *token.Own, tally *storeless.Tally) {
	d, f := &x.decision, &x.fields
	var stack [768]byte // of a token and its cookie, but for the longest; zeroing it costs
	b := stack[:0]

	if e.quiet == QuietOff {
		f.values[iPolicy] = q.tier.field
		if v != nil {
			b = appendRateLimit(b, q.tier.names, v)
		}
	}
	rate := len(b)
	if d.RetryAfter > 0 && !e.shadow {
		b = strconv.AppendInt(b, int64(d.RetryAfter/time.Second), 10)
	}
	retry := len(b)
	if tally != nil && e.quiet != QuietNoToken {
		b = q.append(b, own, tally)
	}
	tok := len(b)
	header, cookie := e.channels(&q.shown)
	if cookie && tok > retry {
		expires := e.carried.Expires(*tally)
		if own != nil {
			expires = own.Expires
		}
		b = e.appendCookie(b, b[retry:tok], expires-q.now.Unix())
	}
	all := string(b)
	f.values[iRateLimit] = all[:rate]
	f.values[iRetry] = all[rate:retry]
	if header {
		f.values[iToken] = all[retry:tok]
	}
	f.cookie = all[tok:]
	if tok > retry {
		f.values[iCache] = noStore
	}
	if d.Degraded {
		f.values[iDegraded] = "?1"
	}
	if e.xRateLimit != NoXRateLimit && e.quiet == QuietOff && v != nil {
		e.fillXRateLimit(f, q, v)
	}
}

func (e *engine) appendCookie(b, tok []byte, maxAge int64) []byte {
	b = append(b, e.cookieName...)
	b = append(b, '=')
	b = append(b, tok...)
	b = append(b, "; Max-Age="...)
	b = strconv.AppendInt(b, max(1, maxAge), 10)
	return append(b, e.cookieAttributes...)
}

// reissue puts the token that says tally in the place of the one that was issued
// with the decision, wherever that stands. A tally that has counted nothing has
// no token; then none is sent.
func (e *engine) reissue(x *exchange, q *inquiry, tally *storeless.Tally, h http.Header) {
	f := &x.fields
	was := f.current()
	then := *was
	tok := q.append(nil, nil, tally)
	if was.values[iToken] != "" {
		then.values[iToken] = string(tok)
	}
	if then.cookie = ""; was.cookie != "" && len(tok) > 0 {
		then.cookie = string(e.appendCookie(nil, tok, e.carried.Expires(*tally)-q.now.Unix()))
	}
	f.reissued.Store(&then)
	f.replaceReissued(h) // where they are set already; the guard sees to the rest
}

// replaceReissued puts what was reissued in the place of what was issued, if that stands
// in h.
func (f *fields) replaceReissued(h http.Header) {
	if then := f.reissued.Load(); then != nil {
		replaceLine(h, fieldCookie, f.cookie, then.cookie)
		replaceLine(h, TokenHeader, f.values[iToken], then.values[iToken])
	}
}

// replaceLine puts a line of a field in the place of another, if that is there, or
// takes it away. The lines are copied, because those that stand there may be shared.
func replaceLine(h http.Header, name, was, line string) {
	i := slices.Index(h[name], was)
	if i < 0 || was == "" {
		return
	}
	lines := slices.Clone(h[name])
	if line != "" {
		lines[i] = line
	} else if lines = slices.Delete(lines, i, i+1); len(lines) == 0 {
		delete(h, name)
		return
	}
	h[name] = lines
}

// append appends the token that says tally of a family.
func (q *inquiry) append(b []byte, own *token.Own, tally *storeless.Tally) []byte {
	if own != nil {
		return q.holder.AppendOwn(b, *own, tally)
	}
	return q.holder.Append(b, tally)
}
