// SPDX-License-Identifier: Apache-2.0

package reply

// The response of stacked middlewares carries a line of each policy. The lines of all of them lie in one place, so one more
// policy costs one more policy.

// Within makes f the fields of a middleware inside outer's. All values of f must be set. Where outer is the outermost buf keeps
// the lists of the stack; it is empty, or nil.
func (f *Fields) Within(outer *Fields, buf *Lists) {
	first := outer.inner.CompareAndSwap(nil, outer) // any other would add its lines in the same places
	f.outer = outer
	switch {
	case outer.outer == nil:
		f.lists = buf
		f.list(&outer.Values)
	case first:
		f.lists, f.counts = outer.lists, outer.counts
	}
	f.list(&f.Values)
	outer.inner.Store(f)
}

// list adds the lines of v to the lists, if they fit.
func (f *Fields) list(v *Values) {
	for i := 0; i < listed && f.lists != nil; i++ {
		switch n := f.counts >> (4 * i) & 15; {
		case v.Lines[i] == "":
		case n == usual:
			f.lists = nil
		default:
			f.lists[i][n] = v.Lines[i]
			f.counts += 1 << (4 * i)
		}
	}
}

// Inside reports whether f's middleware is inside another one.
func (f *Fields) Inside() bool { return f.outer != nil }

// last returns the fields of the innermost middleware of f's stack. Seen from an outer one, that
// is the last that ran: a handler in between may serve several requests by it.
func (f *Fields) last() *Fields {
	for g := f.inner.Load(); g != nil && g != f; g = f.inner.Load() {
		f = g
	}
	return f
}

// lines returns what f, and those outside of it, have to say in a field: in a list a line each, the
// outermost first; of the rest, the innermost value stands. Nothing can be appended in place: a handler's Add must not reach the
// next value.
func (f *Fields) lines(i int, kept bool) (lines []string) {
	switch {
	case f.outer == nil:
		return f.Current().line(i)
	case i < listed && kept && f.lists != nil:
		n := f.counts >> (4 * i) & 15
		return f.lists[i][:n:n]
	case i < listed:
		list := f.outer.lines(i, kept)
		return append(list[:len(list):len(list)], f.Current().line(i)...)
	}
	for g := f; g != nil && lines == nil; g = g.outer {
		lines = g.Current().line(i)
	}
	return lines
}

// extent returns how many fields f, and those outside of it, may have: few decisions have a Retry-After,
// and fewer have a field after it. It also returns whether nothing of them was reissued: then the kept
// lists hold.
func (f *Fields) extent() (n int, kept bool) {
	n, kept = Retry, true
	for g := f; g != nil; g = g.outer {
		v := g.Current()
		kept = kept && v == &g.Values
		switch {
		case v.More != nil:
			n = len(names)
		case v.Lines[Retry] != "":
			n = max(n, numFields)
		}
	}
	return n, kept
}
