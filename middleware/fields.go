package middleware

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

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
	values             [numFields]string
	cookie, roomCookie string
}

// fields are the values of a decision among those of others. They do not change once
// the handler runs: what comes after is put beside them, because http.TimeoutHandler
// may have left a handler behind that still refunds, while the response is written.
type fields struct {
	issued
	reissued atomic.Pointer[issued] // in their place; nil: none
	paid     bool                   // the token was bought with this very request
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
	v := f.current()
	for i, value := range v.values {
		if value == "" {
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

// precious reports whether what a client has paid for is among the fields, and is lost
// if they are.
func (f *fields) precious() bool {
	for _, g := range f.stack() {
		if g.paid {
			return true
		}
	}
	return false
}

// setStack is set for all middlewares of a stack, the outermost first. Lists get
// a line for each; of the rest, the innermost value stands.
func (f *fields) setStack(h http.Header) {
	stack := f.stack()
	for i, name := range fieldNames {
		var lines []string
		for _, g := range stack {
			switch value := g.current().values[i]; {
			case value == "":
			case i < listed:
				lines = append(lines, value)
			default:
				lines = []string{value}
			}
		}
		if i == iToken {
			lines = beside(h[TokenHeader], lines)
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
	v := f.current()
	for _, cookie := range []string{v.cookie, v.roomCookie} {
		if cookie != "" && !slices.Contains(h[fieldCookie], cookie) {
			h[fieldCookie] = append(h[fieldCookie], cookie)
		}
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

// replaceToken puts a token and its cookie in the place of those that were issued,
// wherever they stand.
func (f *fields) replaceToken(h http.Header, tok, cookie string) {
	was := f.current()
	then := *was
	if was.values[iToken] != "" {
		then.values[iToken] = tok
	}
	if then.cookie = ""; was.cookie != "" {
		then.cookie = cookie
	}
	f.reissued.Store(&then)
	// Where they are set already; a guard sets them when it settles.
	replaceLine(h, fieldCookie, was.cookie, then.cookie)
	replaceLine(h, TokenHeader, was.values[iToken], then.values[iToken])
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
