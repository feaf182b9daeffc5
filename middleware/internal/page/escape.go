// SPDX-License-Identifier: Apache-2.0

package page

import "unicode/utf8"

// Add appends texts that need no escaping.
func Add(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(b, text...)
	}
	return b
}

// AppendEscaped appends s for the text of an element or a quoted attribute.
func AppendEscaped[text string | []byte](b []byte, s text) []byte {
	for i := 0; i < len(s); i++ {
		from := i
		for i < len(s) && IsPlain(s[i]) {
			i++
		}
		if b = append(b, s[from:i]...); i < len(s) {
			b = AppendByte(b, s[i])
		}
	}
	return b
}

// AppendByte appends a byte of a text, escaped. CR is escaped too: of CR LF, and of CR, HTML
// parsers make LF (HTML, 13.2.3.5).
func AppendByte(b []byte, c byte) []byte {
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

// IsPlain reports whether a byte stands for itself, in a body and in a page.
func IsPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= utf8.RuneSelf
}
