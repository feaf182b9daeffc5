// SPDX-License-Identifier: Apache-2.0

package reply

// The response of stacked middlewares carries a line of each policy. The lines are joined once,
// when a request comes to the next middleware, so one more policy costs one more policy.

// Within makes f the fields of a middleware inside outer's. All values of f must be set.
// Where they fit, buf keeps the lists of the stack; it is empty, or nil.
func (f *Fields) Within(outer *Fields, buf *Lists) {
	f.outer, f.lists = outer, buf
	_, kept := outer.extent()
	for i := 0; i < listed && f.lists != nil; i++ {
		n := copy(buf[i][:], outer.list(i, kept))
		switch {
		case n == usual: // no line more fits
			f.lists = nil
			continue
		case f.Values.Lines[i] != "":
			buf[i][n] = f.Values.Lines[i]
			n++
		}
		f.counts |= uint16(n) << (4 * i)
	}
	outer.inner.Store(f)
}

// Inside reports whether f's middleware is inside another one.
func (f *Fields) Inside() bool { return f.outer != nil }

// last returns the fields of the innermost middleware of f's stack. Seen from an outer one, that
// is the last that ran: a handler in between may serve several requests by it.
func (f *Fields) last() *Fields {
	for g := f.inner.Load(); g != nil; g = f.inner.Load() {
		f = g
	}
	return f
}

// lines returns what f, and those outside of it, have to say in a field: in a list a line each, the
// outermost first; of the rest, the innermost value stands. Nothing can be appended in place: a handler's Add must not reach the
// next value.
func (f *Fields) lines(i int, kept bool) (lines []string) {
	if f.outer == nil {
		return f.Current().line(i)
	}
	if i < listed {
		return f.list(i, kept)
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

// list returns the lines of a list, by what is kept of it if that holds.
func (f *Fields) list(i int, kept bool) []string {
	if f.outer == nil {
		return f.Current().line(i)
	}
	if kept && f.lists != nil {
		n := f.counts >> (4 * i) & 15
		return f.lists[i][:n:n]
	}
	list := f.outer.list(i, kept)
	return append(list[:len(list):len(list)], f.Current().line(i)...)
}
