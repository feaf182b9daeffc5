// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"net/http"
	"slices"
	"time"
)

// SetAhead is set before the handler runs: for handlers that write past our writer, as a
// framework's adapter may. Some outer middleware may have told the caches to store all of a site;
// what the handler says is another matter.
func (f *Fields) SetAhead(h http.Header) {
	f.ahead = true
	var own []string
	switch {
	case len(h) == 0 || f.Lines[Cache] == "":
	case f.outer != nil && f.outer.stands(h): // as nearly always: nothing else is there for caches to hear, nor beside our tokens
		delete(h, expiresField)
		f.set(h, len(f.outer.lines(Token, true)) == 0)
		return
	default:
		_, own = publiclyCacheable(time.UnixMicro(f.Now), h)
		ForbidStoring(h)
	}
	f.setBeside(h, own)
}

// setBeside sets the fields, but for a Cache-Control that keeps the response from others too:
// a browser may store a page for its user, and ask whether that has changed. It may get an older
// token from there, which is never an error.
func (f *Fields) setBeside(h http.Header, own []string) {
	f.Set(h)
	if own != nil {
		h[CacheControl] = own
	}
}

// finalize brings h into the state in which it is sent. In a stack the innermost that writes does so
// for all, and the others only check that it stands.
func (f *Fields) finalize(h http.Header) {
	if last := f.last(); (f.ahead || last != f) && last.stands(h) {
		return
	}
	f.compose(h)
}

// compose is finalize for an unknown h.
func (f *Fields) compose(h http.Header) {
	f.replaceStack(h)
	public, own := publiclyCacheable(time.UnixMicro(f.Now), h)
	switch {
	case f.precious():
		if public {
			ForbidStoring(h)
		}
		f.Set(h)
	case public:
		// A cache may serve this response to any client. It must not carry one
		// client's token, and its counts would be stale. The memory counts.
		f.drop(h)
	case f.ahead:
		f.restore(h)
	default:
		f.setBeside(h, own)
	}
}

// Finalized reports whether the header has been brought into its final state.
func (f *Fields) Finalized() bool { return f.finalized.Load() }

// Lost returns the name of a field that h should have since it was finalized, and has not, or
// "". It knows of the token and the list of limits alone: what else a handler says stands.
func (f *Fields) Lost(h http.Header) string {
	if public, _ := publiclyCacheable(time.UnixMicro(f.Now), h); public && !f.precious() {
		return "" // they were taken out
	}
	v := f.Current()
	for _, i := range [...]int{Token, RateLimit} {
		if line := v.Lines[i]; line != "" && !slices.Contains(h[names[i]], line) {
			return names[i]
		}
	}
	if v.Cookie != "" && !slices.Contains(h[SetCookie], v.Cookie) {
		return SetCookie
	}
	return ""
}

// stands reports whether h has the fields of f, and of all middlewares outside of it, as they were
// set, and has nothing beside them that may have a shared cache store it.
func (f *Fields) stands(h http.Header) bool {
	n, kept := f.extent()
	if !kept {
		return false
	}
	others := len(h)
	for i, v := 0, &f.Values; i < n; i++ {
		set := v.line(i)
		if f.outer != nil {
			set = f.lines(i, kept)
		}
		if len(set) == 0 {
			if i == Cache && (has(h, CacheControl) || has(h, expiresField)) {
				return false
			}
			continue
		}
		if there := h[names[i]]; len(there) != len(set) || &there[0] != &set[0] { // ours, and not one that reads the same
			return false
		}
		others--
	}
	for g := f; g != nil; g = g.outer {
		if g.Cookie != "" && !slices.Contains(h[SetCookie], g.Cookie) {
			return false
		}
	}
	return !heardFirst(h, others)
}

// restore sets anew what has got lost since SetAhead, and leaves what the handler has
// put in its place: beside ours, where policies have lines of their own. A handler that
// clears the map has not chosen anything, nor has a proxy; one that keeps its response
// from shared caches has.
func (f *Fields) restore(h http.Header) {
	last := f.last()
	n, kept := last.extent()
	for i, name := range names[:n] {
		ours := last.lines(i, kept)
		there := h[name]
		switch {
		case len(ours) == 0 || slices.Equal(there, ours):
		case len(there) == 0:
			h[name] = ours
		case i == Token:
			h[name] = beside(there, ours)
		case i < listed:
			h[name] = union(ours, there)
		case i == Cache && !keptPrivate(there):
			h[name] = ours
		}
	}
	last.setCookies(h)
}

// union returns our lines, then the lines of others.
func union(ours, there []string) []string {
	return append(ours, slices.DeleteFunc(slices.Clone(there), func(line string) bool { return slices.Contains(ours, line) })...)
}
