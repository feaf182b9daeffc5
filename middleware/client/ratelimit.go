// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// unknown is what remains where the server does not say.
const unknown = -1

// maxRateLimit is how many bytes of RateLimit fields are read. Eight limits with
// names of 64 bytes take 700.
const maxRateLimit = 4 << 10

// remaining returns the smallest r of a response's RateLimit fields, or
// unknown.
//
// The field is a List of Strings with parameters. The parameter r, an Integer not below zero, is
// the remaining quota units (RFC 9651; section 4.1 of the draft that package middleware names). A
// malformed member voids the whole list, as in RFC 9651: half a list would name the wrong smallest.
// The Dictionary of older drafts is void too. A limit without r is ignored.
func remaining(h http.Header) int {
	least, size := unknown, 0
	for _, line := range h["Ratelimit"] {
		if size += len(line); size > maxRateLimit {
			return unknown
		}
		for rest := strings.Trim(line, " \t"); rest != ""; {
			var r int
			var ok bool
			if r, rest, ok = member(rest); !ok {
				return unknown
			}
			if r != unknown && (least == unknown || r < least) {
				least = r
			}
		}
	}
	return least
}

// member reads a limit and the comma behind it. It returns the limit's r, or
// unknown if it has none.
func member(s string) (r int, rest string, ok bool) {
	r = unknown
	if !strings.HasPrefix(s, `"`) {
		return 0, "", false
	}
	_, s, ok = bareItem(s)
	for ok && strings.HasPrefix(s, ";") {
		s = strings.TrimLeft(s[1:], " ")
		end := len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789_-.*"))
		key, value := s[:end], ""
		if s = s[end:]; strings.HasPrefix(s, "=") {
			value, s, ok = bareItem(s[1:])
		}
		switch {
		case key == "":
			return 0, "", false
		case key == "r":
			if !httpfield.IsDigits(value) {
				return 0, "", false
			}
			n, err := strconv.ParseInt(value, 10, 32)
			if r = int(n); err != nil {
				return 0, "", false
			}
		}
	}
	s = strings.TrimLeft(s, " \t")
	if !ok || s == "" {
		return r, "", ok
	}
	if s[0] != ',' {
		return 0, "", false
	}
	s = strings.TrimLeft(s[1:], " \t")
	return r, s, s != "" // a list does not end in a comma
}

// bareItem cuts a bare item off, without a look at its type except for a String,
// which may hold what else ends an item.
func bareItem(s string) (item, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, "\";, \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], end > 0
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			return s[:i+1], s[i+1:], true
		case c < ' ' || c > '~':
			return "", "", false
		}
	}
	return "", "", false
}
