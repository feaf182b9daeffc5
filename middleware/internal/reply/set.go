// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/internal/token"
)

// Set puts the fields into h, in place of whatever stands there: for all middlewares of a stack.
func (f *Fields) Set(h http.Header) { f.set(h, len(h) > 0) }

// set is Set, where h may have tokens that are not of the stack.
func (f *Fields) set(h http.Header, others bool) {
	last := f.last()
	n, kept := last.extent()
	for i, v := 0, last.Current(); i < n; i++ {
		ours := v.line(i)
		if last.outer != nil {
			ours = last.lines(i, kept)
		}
		if others && i == Token && len(h[TokenField]) > 0 {
			ours = beside(h[TokenField], ours)
		}
		if len(ours) > 0 {
			h[names[i]] = ours
		}
	}
	last.setCookies(h)
}

// tokenStart begins every window token of any signer: {"alg":"HS256","kid":" in
// base64url.
const tokenStart = "eyJhbGciOiJIUzI1NiIsImtpZCI6I"

// beside returns our tokens, and after them those that a reverse proxy has brought from
// an upstream that limits too: its client may have paid for one. Anything else of the
// name is replaced, like the other fields, and so are older tokens of ours, which have
// the header of ours.
func beside(there, ours []string) []string {
	for _, line := range there {
		if slices.Contains(ours, line) { // of a stack, nearly always
			continue
		}
		header := line[:strings.IndexByte(line, '.')+1]
		if len(line) <= token.MaxLen && strings.HasPrefix(header, tokenStart) &&
			!slices.ContainsFunc(ours, func(tok string) bool { return strings.HasPrefix(tok, header) }) {
			ours = append(ours, line)
		}
	}
	return ours
}

// setCookies adds the cookies of a stack, the outermost first.
func (f *Fields) setCookies(h http.Header) {
	if f.outer != nil {
		f.outer.setCookies(h)
	}
	if cookie := f.Current().Cookie; cookie != "" && !slices.Contains(h[SetCookie], cookie) {
		h[SetCookie] = append(h[SetCookie], cookie)
	}
}

// precious reports whether what a client has paid for is among the fields, and is lost
// if they are.
func (f *Fields) precious() bool {
	for g := f.last(); g != nil; g = g.outer {
		if g.Paid {
			return true
		}
	}
	return false
}

// drop removes the fields of the whole stack from h, and an upstream's under the same
// names. Cache-Control stays: it may be the handler's by now. Retry-After stays: only
// refusals have one, and no cache stores them.
func (f *Fields) drop(h http.Header) {
	last := f.last()
	for i, name := range names {
		if i != Cache && i != Retry && (i <= numFields+Degraded || last.lines(i, false) != nil) {
			delete(h, name)
		}
	}
	for g := last; g != nil; g = g.outer {
		replaceLine(h, SetCookie, g.Current().Cookie, "")
	}
}

// takeOut takes our lines out of h, and no other's.
func (f *Fields) takeOut(h http.Header) {
	last := f.last()
	for i, name := range names {
		for _, line := range last.lines(i, false) {
			replaceLine(h, name, line, "")
		}
	}
	for g := last; g != nil; g = g.outer {
		replaceLine(h, SetCookie, g.Current().Cookie, "")
	}
}

// Copy returns the values that hold, to be changed and given to Reissue.
func (f *Fields) Copy() *Values {
	v := *f.Current()
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
	for g := f.last(); g != nil; g = g.outer {
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
	} else if lines = slices.DeleteFunc(lines, func(l string) bool { return l == was }); len(lines) == 0 {
		delete(h, name)
		return
	}
	h[name] = lines
}
