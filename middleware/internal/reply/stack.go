package reply

import "slices"

// usual is how many middlewares are stacked at most, without an allocation.
const usual = 4

// Within makes f the fields of a middleware inside of that of outer. All values
// of f must be set.
func (f *Fields) Within(outer *Fields) {
	f.outer = outer
	outer.inner.Store(f)
}

// alone reports whether no other middleware is stacked with this one.
func (f *Fields) alone() bool { return f.outer == nil && f.inner.Load() == nil }

// stack returns the fields of all middlewares that f's is stacked with, the outermost
// first, in the room that there is. Seen from an outer one, the inner one is the last that ran: a handler in
// between may serve several requests by it.
func (f *Fields) stack(room []*Fields) []*Fields {
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

// linesOf returns what all middlewares of a stack have to say in a field, the outermost
// first. Lists get a line for each; of the rest, the innermost value stands.
func linesOf(stack []*Fields, i int) (lines []string) {
	for _, g := range stack {
		switch value := g.current().Lines[i]; {
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
		switch value := g.current().Lines[i]; {
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
	var room [usual]*Fields
	return slices.ContainsFunc(f.stack(room[:]), func(g *Fields) bool { return g.Paid })
}
