// SPDX-License-Identifier: Apache-2.0

package reply

// Where several middlewares are stacked, the response carries a line of each policy, whoever
// writes it. What all of them say is put together when a request comes to the next one, once, so
// that a policy more costs a policy more.

// Within makes f the fields of a middleware inside of that of outer. All values
// of f must be set. Where they fit, room keeps the lists of the stack; it is empty, or nil.
func (f *Fields) Within(outer *Fields, room *Lists) {
	var all said
	f.outer, f.lists = outer, room
	lines, _ := outer.say(&all)
	for i := 0; i < listed && room != nil; i++ {
		list := append(room[i][:0], lines[i]...)
		if f.Lines[i] != "" {
			list = append(list, f.Lines[i])
		}
		if len(list) > usual {
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

// say returns what f, and those outside of it, have to say in each field: in a list a line each, the
// outermost first; of the rest, the innermost value stands. Of the fields that few decisions have there
// is nothing where nobody has any. Nothing can be appended in place: a handler's Add must not reach the
// next value. It also reports whether all is as it was set first: then a list that is kept holds.
func (f *Fields) say(all *said) (lines [][]string, first bool) {
	lines, first = all[:numFields], true
	together := listed // the lists of several
	if f.outer == nil {
		together = 0
	}
	for g := f; g != nil; g = g.outer {
		v := g.current()
		first = first && v == &g.Values
		for i := together; i < numFields; i++ {
			if all[i] == nil && v.Lines[i] != "" {
				all[i] = v.Lines[i : i+1 : i+1]
			}
		}
		for i := 0; i < numMore && v.More != nil; i++ {
			if lines = all[:]; lines[numFields+i] == nil && v.More[i] != "" {
				lines[numFields+i] = v.More[i : i+1 : i+1]
			}
		}
	}
	for i := range together {
		all[i] = f.list(i, first)
	}
	return lines, first
}

// list returns the lines of a list, by what is kept of it if that holds.
func (f *Fields) list(i int, kept bool) (list []string) {
	if kept && f.lists != nil {
		n := 0
		for n < usual && f.lists[i][n] != "" {
			n++
		}
		return f.lists[i][:n:n]
	}
	line := f.current().Lines[i : i+1 : i+1]
	if line[0] == "" {
		line = nil
	}
	if f.outer == nil {
		return line
	}
	list = f.outer.list(i, kept)
	return append(list[:len(list):len(list)], line...)
}
