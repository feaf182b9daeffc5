package middleware

import "strings"

// minify takes out of our own scripts and styles what is there for people:
// comments, indentation, and the spaces between what needs none. It is no parser.
// What it relies on, a test holds the sources to: strings are in double quotes or
// backticks and end on their line, and regular expressions have no quote, no
// space and no two slashes in them; and no loop has an empty body.
func minify(source string, tight func(before, after byte) bool) string {
	var b strings.Builder
	b.Grow(len(source))
	comment := false // a block comment, in a style sheet
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if comment || strings.HasPrefix(line, "/*") {
			comment = !strings.HasSuffix(line, "*/")
			continue
		}
		start := b.Len()
		minifyLine(&b, line, tight)
		if b.Len() == start {
			continue
		}
		// After these no statement ends, whatever comes next.
		if !strings.ContainsRune("{([,;", rune(b.String()[b.Len()-1])) {
			b.WriteByte('\n')
		}
	}
	// The last statement of a block needs no end; in a style sheet, no declaration.
	return strings.ReplaceAll(b.String(), ";}", "}")
}

// minifyLine appends line to b.
func minifyLine(b *strings.Builder, line string, tight func(before, after byte) bool) {
	var quote byte // that a string began with
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			b.WriteByte(c)
			if c == '\\' {
				i++
				b.WriteByte(line[i])
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '`':
			quote = c
			b.WriteByte(c)
		case c == ' ' && strings.HasPrefix(line[i:], " // "), i == 0 && strings.HasPrefix(line, "//"):
			return
		case c == ' ' && tight(line[i-1], line[i+1]):
		default:
			b.WriteByte(c)
		}
	}
}

// tightScript: a space separates words, and keeps + + and - - apart.
func tightScript(before, after byte) bool {
	return (!word(before) || !word(after)) && (before != after || before != '+' && before != '-')
}

// tightStyle: elsewhere a space may mean something, such as a descendant.
func tightStyle(before, after byte) bool {
	return strings.IndexByte("{:;,", before) >= 0 || after == '{' || after == '}'
}

// word reports whether c may be part of a name. What is not ASCII may.
func word(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '#' || c >= 0x80
}
