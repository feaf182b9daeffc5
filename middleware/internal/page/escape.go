// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"unicode/utf8"
)

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
		if i > from {
			b = append(b, s[from:i]...)
			continue
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
