package middleware

import (
	"net/http"
	"slices"
)

// usual is how many middlewares are stacked at most, without an allocation.
const usual = 4

// within makes f the fields of a middleware inside of that of outer. All values
// of f must be set.
func (f *fields) within(outer *fields) {
	f.outer = outer
	outer.inner.Store(f)
}

// alone reports whether no other middleware is stacked with this one.
func (f *fields) alone() bool { return f.outer == nil && f.inner.Load() == nil }

// stack returns the fields of all middlewares that f's is stacked with, the outermost
// first, in the room that there is. Seen from an outer one, the inner one is the last that ran: a handler in
// between may serve several requests by it.
func (f *fields) stack(room []*fields) []*fields {
	all := room[:0]
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
func (f *fields) setStack(h http.Header) {
	var room [usual]*fields
	stack := f.stack(room[:])
	for i, name := range fieldNames {
		if said(stack, i, h[name]) {
			continue
		}
		lines := linesOf(stack, i)
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

// linesOf returns what all middlewares of a stack have to say in a field, the outermost
// first. Lists get a line for each; of the rest, the innermost value stands.
func linesOf(stack []*fields, i int) (lines []string) {
	for _, g := range stack {
		switch value := g.current().values[i]; {
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
func said(stack []*fields, i int, there []string) bool {
	n, last := 0, ""
	for _, g := range stack {
		switch value := g.current().values[i]; {
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
func (f *fields) precious() bool {
	if f.alone() {
		return f.paid
	}
	var room [usual]*fields
	return slices.ContainsFunc(f.stack(room[:]), func(g *fields) bool { return g.paid })
}
