// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/internal/token"
)

// Set puts the fields into h, in place of whatever stands there.
func (f *Fields) Set(h http.Header) {
	if !f.alone() {
		f.setStack(h)
		return
	}
	v := f.current()
	for i := range v.Lines {
		if v.Lines[i] == "" {
			continue
		}
		// Of capacity one, so that a handler's Add cannot reach the next value.
		lines := v.Lines[i : i+1 : i+1]
		if i == Token {
			lines = beside(h[TokenField], lines)
		}
		h[names[i]] = lines
	}
	if v.More != nil {
		v.More.set(h)
	}
	f.setCookie(h)
}

// set puts the lines into h.
func (m *MoreLines) set(h http.Header) {
	for i := range m {
		if m[i] != "" {
			h[names[numFields+i]] = m[i : i+1 : i+1]
		}
	}
}

// alone reports whether no other middleware is stacked with this one.
func (f *Fields) alone() bool { return f.outer == nil && f.inner.Load() == nil }

// current returns the values that hold.
func (f *Fields) current() *Values {
	if v := f.reissued.Load(); v != nil {
		return v
	}
	return &f.Values
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

func (f *Fields) setCookie(h http.Header) {
	if cookie := f.current().Cookie; cookie != "" && !slices.Contains(h[SetCookie], cookie) {
		h[SetCookie] = append(h[SetCookie], cookie)
	}
}

// usual is how many middlewares are stacked at most, without an allocation.
const usual = 4

// Within makes f the fields of a middleware inside of that of outer. All values
// of f must be set.
func (f *Fields) Within(outer *Fields) {
	f.outer = outer
	outer.inner.Store(f)
}

// stack returns the fields of all middlewares that f's is stacked with, the outermost
// first, in buf where they fit. Seen from an outer one, the inner one is the last that ran: a handler in
// between may serve several requests by it.
func (f *Fields) stack(buf []*Fields) []*Fields {
	all := buf[:0]
	for g := f; g != nil; g = g.outer {
		all = append(all, g)
	}
	slices.Reverse(all)
	for g := f.inner.Load(); g != nil; g = g.inner.Load() {
		all = append(all, g)
	}
	return all
}

// setStack is set for all middlewares of a stack.
func (f *Fields) setStack(h http.Header) {
	var buf [usual]*Fields
	stack := f.stack(buf[:])
	for i, name := range names {
		if said(stack, i, h[name]) {
			continue
		}
		lines := linesOf(stack, i)
		if i == Token {
			lines = beside(h[TokenField], lines)
		}
		if lines != nil {
			h[name] = lines
		}
	}
	for _, g := range stack {
		g.setCookie(h)
	}
}

// linesOf returns what all middlewares of a stack have to say in a field, the outermost
// first. Lists get a line for each; of the rest, the innermost value stands.
func linesOf(stack []*Fields, i int) (lines []string) {
	for _, g := range stack {
		switch value := g.current().value(i); {
		case value == "":
		case i < listed && lines != nil:
			lines = append(lines, value)
		default:
			lines = []string{value}
		}
	}
	return lines
}

// said reports whether what linesOf would make is what stands there.
func said(stack []*Fields, i int, there []string) bool {
	n, last := 0, ""
	for _, g := range stack {
		switch value := g.current().value(i); {
		case value == "":
		case i >= listed:
			n, last = 1, value
		case n == len(there) || there[n] != value:
			return false
		default:
			n++
		}
	}
	return n == len(there) && (last == "" || there[0] == last)
}

// precious reports whether what a client has paid for is among the fields, and is lost
// if they are.
func (f *Fields) precious() bool {
	if f.alone() {
		return f.Paid
	}
	var buf [usual]*Fields
	return slices.ContainsFunc(f.stack(buf[:]), func(g *Fields) bool { return g.Paid })
}

// drop takes the fields of the whole stack out of h again, and what an upstream has under
// the same names. The Cache-Control
// stays: it may be the handler's by now. So does Retry-After: only refusals have
// one, and they are for nobody to cache.
func (f *Fields) drop(h http.Header) {
	stack := f.stack(nil)
	for i, name := range names {
		if i != Cache && i != Retry && (i <= numFields+Degraded || linesOf(stack, i) != nil) {
			delete(h, name)
		}
	}
	for _, g := range stack {
		cookie := g.current().Cookie
		if cookie == "" {
			continue
		}
		if rest := slices.DeleteFunc(h[SetCookie], func(c string) bool { return c == cookie }); len(rest) > 0 {
			h[SetCookie] = rest
		} else {
			delete(h, SetCookie)
		}
	}
}

// takeOut takes our lines out of h, and no other's. Lines are copied, because those that
// stand there may be shared.
func (f *Fields) takeOut(h http.Header) {
	without := func(name string, ours ...string) {
		rest := slices.DeleteFunc(slices.Clone(h[name]), func(line string) bool { return slices.Contains(ours, line) })
		if h[name] = rest; len(rest) == 0 {
			delete(h, name)
		}
	}
	stack := f.stack(nil)
	for i, name := range names {
		without(name, linesOf(stack, i)...)
	}
	for _, g := range stack {
		if cookie := g.current().Cookie; cookie != "" {
			without(SetCookie, cookie)
		}
	}
}

// Copy returns the values that hold, to be changed and given to Reissue.
func (f *Fields) Copy() *Values {
	v := *f.current()
	if v.More != nil {
		more := *v.More
		v.More = &more
	}
	return &v
}

// ReplaceToken puts a token and its cookie in the place of those that there are.
func (v *Values) ReplaceToken(tok, cookie string) {
	if v.Lines[Token] != "" {
		v.Lines[Token] = tok
	}
	if v.Cookie != "" {
		v.Cookie = cookie
	}
}

// Reissue puts values in the place of those that were Values, wherever they stand.
func (f *Fields) Reissue(h http.Header, then *Values) {
	f.reissued.Store(then)
	f.replaceReissued(h) // where they are set already; the guard sees to the rest
}

// replaceStack is replaceReissued for all middlewares of a stack.
func (f *Fields) replaceStack(h http.Header) {
	var buf [usual]*Fields
	for _, g := range f.stack(buf[:]) {
		g.replaceReissued(h)
	}
}

// replaceReissued puts what was reissued in the place of what was Values, if that stands
// in h.
func (f *Fields) replaceReissued(h http.Header) {
	if then := f.reissued.Load(); then != nil {
		replaceLine(h, SetCookie, f.Cookie, then.Cookie)
		for i, name := range names {
			replaceLine(h, name, f.value(i), then.value(i))
		}
	}
}

// replaceLine puts a line of a field in the place of another, if that is there, or
// takes it away. The lines are copied, because those that stand there may be shared.
func replaceLine(h http.Header, name, was, line string) {
	i := slices.Index(h[name], was)
	if i < 0 || was == "" || was == line {
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
