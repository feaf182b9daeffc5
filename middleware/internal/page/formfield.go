// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// How many fields are held, and how long all their names are. A form of people has fewer.
const (
	maxFields = 100
	maxNames  = 2 << 10
)

// A fieldWriter writes the inputs that send a form again. It takes only what a page in UTF-8
// gives back as it was, with its line breaks as CR LF. Of all else net/url would drop a part, or
// a browser would change it, and the form that is sent again would say something else.
type fieldWriter struct {
	page     []byte
	most     int // bytes of the page
	words    *words
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
	b := append(f.page, `<input type="hidden" name="`...)
	b = append(appendEscaped(b, name), `" value="`...)
	if b, ok = appendDecoded(b, value, f.most); !ok {
		return whyStrange
	}
	if b = append(b, "\">\n"...); kind != notSecret {
		b = f.appendSecret(b[:before], name, kind)
	}
	if f.page = b; len(b) > f.most {
		return whyLong
	}
	return isKept
}

// appendSecret appends the input in which a secret is typed again, with its label: by its name
// too, where that of its kind is not known or was given before. The first one has the focus.
func (f *fieldWriter) appendSecret(b, name []byte, kind secretKind) []byte {
	before, after, _ := strings.Cut(f.words.again, "%s")
	b = append(append(b, "<p><label>"...), before...)
	label := f.words.secrets[kind]
	b = append(b, label...)
	if label != "" && f.asked[kind] {
		b = append(b, ' ')
	}
	if label == "" || f.asked[kind] {
		b = appendQuoted(b, f.words, name)
	}
	b = append(append(b, after...), ` <input type="password" required`...)
	if !slices.Contains(f.asked[:], true) {
		b = append(b, " autofocus"...)
	}
	f.asked[kind] = true
	b = append(b, ` name="`...)
	b = appendEscaped(b, name)
	return append(b, "\"></label></p>\n"...)
}

// maxLabel is how much of a name is shown, in characters.
const maxLabel = 40

// appendQuoted appends the name of a field, in quotes.
func appendQuoted(b []byte, w *words, name []byte) []byte {
	before, after, _ := strings.Cut(w.name, "%s")
	more, n := "", 0
	for i := 0; i < len(name); n++ {
		if n == maxLabel {
			name, more = name[:i], "…"
			break
		}
		_, size := utf8.DecodeRune(name[i:])
		i += size
	}
	b = appendEscaped(append(b, before...), name)
	return append(append(b, more...), after...)
}

// appendEscaped appends s for the text of an element or a quoted attribute.
func appendEscaped[text string | []byte](b []byte, s text) []byte {
	for i := 0; i < len(s); i++ {
		from := i
		for i < len(s) && isPlain(s[i]) {
			i++
		}
		if b = append(b, s[from:i]...); i < len(s) {
			b = appendByte(b, s[i])
		}
	}
	return b
}

// appendByte appends a byte of a text, escaped. CR is escaped too: of CR LF, and of CR, HTML
// parsers make LF (HTML, 13.2.3.5).
func appendByte(b []byte, c byte) []byte {
	switch c {
	case '&':
		return append(b, "&amp;"...)
	case '<':
		return append(b, "&lt;"...)
	case '>':
		return append(b, "&gt;"...)
	case '"':
		return append(b, "&#34;"...)
	case '\'':
		return append(b, "&#39;"...)
	case '\r':
		return append(b, "&#13;"...)
	}
	return append(b, c)
}

// appendDecoded appends what s says, urlencoded, as appendEscaped does, and stops when b has
// more than the most bytes. It is not ok if that is nothing that HTML can say in UTF-8.
func appendDecoded(b, s []byte, most int) (_ []byte, ok bool) {
	start := len(b)
	for i := 0; i < len(s) && len(b) <= most; {
		from := i
		for i < len(s) && isPlain(s[i]) {
			i++
		}
		if b = append(b, s[from:i]...); i == len(s) {
			break
		}
		if len(b) >= cap(b)-8 {
			b = slices.Grow(b, max(16, most-len(b))) // once: append would do it again and again
		}
		c, width := decoded(s, i)
		if c == 0 {
			return b, false
		}
		b = appendByte(b, c)
		i += width
	}
	return b, len(b) > most || utf8.Valid(b[start:])
}

// isPlain reports whether a byte stands for itself, in a body and in a page.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= utf8.RuneSelf
}

// decoded returns the byte for which stands what is at i of a urlencoded text, and how long that
// is; 0 if it stands for nothing, or for NUL, which no HTML can say.
func decoded(s []byte, i int) (c byte, width int) {
	switch c = s[i]; {
	case c == '+':
		return ' ', 1
	case c != '%':
		return c, 1
	case i+2 < len(s):
		if high, low := hexDigits[s[i+1]], hexDigits[s[i+2]]; high != 0 && low != 0 {
			return (high-1)<<4 | (low - 1), 3
		}
	}
	return 0, 0
}

// hexDigits are the values of hexadecimal digits, and 1; 0: it is none.
var hexDigits = [256]byte{
	'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8, '8': 9, '9': 10,
	'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16, 'A': 11, 'B': 12, 'C': 13, 'D': 14, 'E': 15, 'F': 16,
}
