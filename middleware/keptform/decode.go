// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"slices"
	"unicode/utf8"

	"github.com/tallystick/tallystick/middleware/internal/page"
)

// appendDecoded appends what s says, urlencoded, as page.AppendEscaped does, and stops when b has
// more than the most bytes. It is not ok if that is nothing that HTML can say in UTF-8.
func appendDecoded(b, s []byte, most int) (_ []byte, ok bool) {
	start := len(b)
	for i := 0; i < len(s) && len(b) <= most; {
		from := i
		for i < len(s) && page.IsPlain(s[i]) {
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
		b = page.AppendByte(b, c)
		i += width
	}
	return b, len(b) > most || utf8.Valid(b[start:])
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
