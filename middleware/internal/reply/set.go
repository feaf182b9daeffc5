package reply

import (
	"net/http"
	"slices"
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
	f.setCookie(h)
}

// setStack is set for all middlewares of a stack.
func (f *Fields) setStack(h http.Header) {
	var room [usual]*Fields
	stack := f.stack(room[:])
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

// drop takes the fields of the whole stack out of h again. The Cache-Control
// stays: it may be the handler's by now. So does Retry-After: only refusals have
// one, and they are for nobody to cache.
func (f *Fields) drop(h http.Header) {
	for _, name := range names[:Cache] {
		delete(h, name)
	}
	for _, g := range f.stack(nil) {
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

// ReplaceToken puts a token and its cookie in the place of those that were Values,
// wherever they stand.
func (f *Fields) ReplaceToken(h http.Header, tok, cookie string) {
	was := f.current()
	then := *was
	if was.Lines[Token] != "" {
		then.Lines[Token] = tok
	}
	if then.Cookie = ""; was.Cookie != "" {
		then.Cookie = cookie
	}
	f.reissued.Store(&then)
	f.replaceReissued(h) // where they are set already; the guard sees to the rest
}

// replaceReissued puts what was reissued in the place of what was Values, if that stands
// in h.
func (f *Fields) replaceReissued(h http.Header) {
	if then := f.reissued.Load(); then != nil {
		replaceLine(h, SetCookie, f.Cookie, then.Cookie)
		replaceLine(h, TokenField, f.Lines[Token], then.Lines[Token])
	}
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
