// SPDX-License-Identifier: Apache-2.0

package reply

// Where several middlewares are stacked, the response carries a line of each policy, whoever
// writes it. What all of them say is put together when a request comes to the next one, once, so
// that a policy more costs a policy more.

// Within makes f the fields of a middleware inside of that of outer. All values
// of f must be set. Where they fit, room keeps the lists of the stack; it is empty, or nil.
func (f *Fields) Within(outer *Fields, room *Lists) {
	f.outer, f.lists = outer, room
	for i := 0; i < listed && room != nil; i++ {
		all := append(room[i][:0], outer.lines(i)...)
		if f.Lines[i] != "" {
			all = append(all, f.Lines[i])
		}
		if len(all) > usual {
			f.lists = nil
		}
	}
	outer.inner.Store(f)
}

// last returns the fields of the innermost middleware of f's stack. Seen from an outer one, that
// is the last that ran: a handler in between may serve several requests by it.
func (f *Fields) last() *Fields {
	for g := f.inner.Load(); g != nil; g = f.inner.Load() {
		f = g
	}
	return f
}

// fields returns how many of the fields f, and those outside of it, may have values for: most have
// none for those that few decisions have.
func (f *Fields) fields() int {
	for g := f; g != nil; g = g.outer {
		if g.current().More != nil {
			return len(names)
		}
	}
	return numFields
}

// lines returns what f, and those outside of it, have to say in a field: in a list a line each, the
// outermost first; of the rest, the innermost value stands. Nothing can be appended in place: a
// handler's Add must not reach the next value.
func (f *Fields) lines(i int) []string {
	if f.outer == nil && i < numFields {
		if lines := &f.current().Lines; lines[i] != "" {
			return lines[i : i+1 : i+1]
		}
		return nil
	}
	return f.linesOfAll(i)
}

// linesOfAll is lines for a stack, and for fields that few decisions have.
func (f *Fields) linesOfAll(i int) []string {
	if i < listed {
		return f.list(i)
	}
	for g := f; g != nil; g = g.outer {
		switch v := g.current(); {
		case i < numFields && v.Lines[i] != "":
			return v.Lines[i : i+1 : i+1]
		case i >= numFields && v.More != nil && v.More[i-numFields] != "":
			return v.More[i-numFields : i-numFields+1 : i-numFields+1]
		}
	}
	return nil
}

// list is lines for a list of a stack.
func (f *Fields) list(i int) (list []string) {
	kept := f.lists != nil
	for g := f; g != nil; g = g.outer {
		kept = kept && g.reissued.Load() == nil
	}
	if kept {
		n := 0
		for n < usual && f.lists[i][n] != "" {
			n++
		}
		return f.lists[i][:n:n]
	}
	if f.outer != nil {
		list = f.outer.list(i)
	}
	if line := f.current().Lines[i]; line != "" {
		list = append(list[:len(list):len(list)], line)
	}
	return list
}
