// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/words"
)

// How many fields are held, and how long all their names are. A form of people has fewer.
const (
	maxFields = 100
	maxNames  = 2 << 10
)

// A fieldWriter writes the inputs that send a form again. It takes only what a page in UTF-8 gives
// back as it was, with its line breaks as CR LF. net/url would drop a part of anything else, or a
// browser would change it, and the form that is sent again would say something else.
type fieldWriter struct {
	page     []byte
	most     int // bytes of the page
	words    *words.Form
	isSecret func(name string) bool // beside what names say; may be nil

	fields, names int              // that were read, and their bytes
	asked         [numSecrets]bool // for secrets of a kind
	reader        nameReader
}

// write writes the inputs of an urlencoded body as browsers write it, or says why not.
func (f *fieldWriter) write(body []byte) why {
	for more := true; more; {
		var pair []byte
		if pair, body, more = bytes.Cut(body, []byte("&")); len(pair) == 0 {
			continue
		}
		if why := f.writeField(pair); why != isKept {
			return why
		}
	}
	return isKept
}

func (f *fieldWriter) writeField(pair []byte) why {
	left, value, _ := bytes.Cut(pair, []byte("="))
	name, ok := f.reader.decode(left)
	f.fields++
	f.names += len(name)
	switch {
	case len(name) > maxName || f.names > maxNames || f.fields > maxFields:
		return whyLong
	case !ok || !utf8.Valid(name),
		len(name) == 0,                  // no browser sends a field without name
		bytes.IndexByte(pair, ';') >= 0, // a separator to some, and not to browsers
		bytes.EqualFold(name, []byte("_charset_")) && !bytes.EqualFold(value, []byte("utf-8")): // browsers fill it in
		return whyStrange
	}
	kind := notSecret
	if len(value) > 0 {
		if kind = f.reader.kind(name); kind == notSecret && f.isSecret != nil && f.isSecret(string(name)) {
			kind = otherSecret
		}
	}
	before := len(f.page)
	b := page.Add(page.AppendEscaped(page.Add(f.page, `<input type="hidden" name="`), name), `" value="`)
	if b, ok = appendDecoded(b, value, f.most); !ok {
		return whyStrange
	}
	if b = page.Add(b, "\">\n"); kind != notSecret {
		b = f.appendSecret(b[:before], name, kind)
	}
	if f.page = b; len(b) > f.most {
		return whyLong
	}
	return isKept
}

// appendSecret appends the labelled input in which a secret is typed again. The label has the
// field's name too, if the kind has no label or used it before. The first input has the focus.
func (f *fieldWriter) appendSecret(b, name []byte, kind secretKind) []byte {
	before, after, _ := strings.Cut(f.words.Again, "{}")
	label := kind.label(f.words)
	b = page.Add(b, "<p><label>", before, label)
	if label != "" && f.asked[kind] {
		b = page.Add(b, " ")
	}
	if label == "" || f.asked[kind] {
		b = appendQuoted(b, f.words, name)
	}
	b = page.Add(b, after, ` <input type="password" required`)
	if !slices.Contains(f.asked[:], true) {
		b = page.Add(b, " autofocus")
	}
	f.asked[kind] = true
	return page.Add(page.AppendEscaped(page.Add(b, ` name="`), name), "\"></label></p>\n")
}

// maxLabel is how much of a name is shown, in characters.
const maxLabel = 40

// appendQuoted appends the name of a field, in quotes.
func appendQuoted(b []byte, w *words.Form, name []byte) []byte {
	before, after, _ := strings.Cut(w.Name, "{}")
	more, n := "", 0
	for i := 0; i < len(name); n++ {
		if n == maxLabel {
			name, more = name[:i], "…"
			break
		}
		_, size := utf8.DecodeRune(name[i:])
		i += size
	}
	return page.Add(page.AppendEscaped(page.Add(b, before), name), more, after)
}
