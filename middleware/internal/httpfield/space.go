// SPDX-License-Identifier: Apache-2.0

package httpfield

// Trim returns s without the optional whitespace around it (RFC 9110 section 5.6.3): spaces
// and tabs, and nothing else. [strings.Trim] first makes a set of them, for each string.
func Trim(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
