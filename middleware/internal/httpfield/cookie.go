// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"iter"
	"strings"
)

const (
	// maxCookieBytes is how much of the Cookie lines is searched, all together.
	// Browsers send no more to any site that works: the usual servers and proxies
	// refuse 8 KiB. A client that sends more shows no token, and the memory counts.
	maxCookieBytes = 16 << 10

	// maxGlances is how many cookies of the name are looked at.
	maxGlances = 32
)

// Cookies returns the values of the cookies of a name, and of those whose name is that
// one and a suffix, with their suffix. A # in a suffix is any hexadecimal digit, a small
// one. Names and values need no unquoting. It is what
// Request.CookiesNamed is, but for its cost: that one cuts every line into pieces first,
// and allocates for each of the name.
func Cookies(lines []string, name string, suffixes ...string) iter.Seq2[string, string] {
	return func(yield func(suffix, value string) bool) {
		left, glances := maxCookieBytes, 0
		for _, line := range lines {
			if left -= len(line); left < 0 {
				return
			}
			for at := 0; glances < maxGlances; {
				i := strings.Index(line[at:], name)
				if i < 0 {
					break
				}
				before := strings.TrimRight(line[:at+i], " \t")
				at += i + len(name)
				suffix, ok := suffixOf(line[at:], suffixes)
				if before != "" && !strings.HasSuffix(before, ";") || !ok {
					continue // part of another name or value, which an attacker can plant: no look
				}
				glances++
				value, _, _ := strings.Cut(line[at+len(suffix)+1:], ";")
				if !yield(suffix, strings.TrimRight(value, " \t")) {
					return
				}
			}
		}
	}
}

// suffixOf returns what ends the name of a cookie whose rest is given, if it is one of the
// suffixes, or nothing. It is not ok if the name ends otherwise.
func suffixOf(rest string, suffixes []string) (suffix string, ok bool) {
	if strings.HasPrefix(rest, "=") {
		return "", true
	}
	for _, suffix := range suffixes {
		if n := len(suffix); len(rest) > n && rest[n] == '=' && spelled(rest[:n], suffix) {
			return rest[:n], true
		}
	}
	return "", false
}

// spelled reports whether s is a suffix, which is as long.
func spelled(s, suffix string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == suffix[i] && c != '#':
		case suffix[i] == '#' && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f'):
		default:
			return false
		}
	}
	return true
}
