// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Limit is a member of a RateLimit field.
type Limit struct {
	Remaining int           // r
	Reset     time.Duration // t; 0 if the server does not say
}

// maxRateLimit is how many bytes of RateLimit fields are read. Eight limits with
// names of 64 bytes take 700.
const maxRateLimit = 4 << 10

// RateLimits returns the limits of a response's RateLimit fields that say what remains.
//
// The field is a List of Strings with parameters. The parameter r, an Integer not below zero, is
// the remaining quota units (RFC 9651; section 4.1 of the draft that package middleware names). A
// malformed member voids the whole list, as in RFC 9651: half a list would name the wrong smallest.
// The Dictionary of older drafts is void too. A limit without r is ignored.
func RateLimits(h http.Header) (limits []Limit) {
	size := 0
	for _, line := range h["Ratelimit"] {
		if size += len(line); size > maxRateLimit {
			return nil
		}
		for rest := strings.Trim(line, " \t"); rest != ""; {
			l := Limit{Remaining: unsaid}
			var ok bool
			if rest, ok = l.read(rest); !ok {
				return nil
			}
			if l.Remaining != unsaid {
				limits = append(limits, l)
			}
		}
	}
	return limits
}

// unsaid is what remains where the server does not say.
const unsaid = -1

// read reads a limit and the comma behind it.
func (l *Limit) read(s string) (rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", false
	}
	_, s, ok = bareItem(s)
	for ok && strings.HasPrefix(s, ";") {
		s = strings.TrimLeft(s[1:], " ")
		end := len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789_-.*"))
		key, value := s[:end], ""
		if s = s[end:]; strings.HasPrefix(s, "=") {
			value, s, ok = bareItem(s[1:])
		}
		switch key {
		case "":
			return "", false
		case "t":
			l.Reset, _ = Seconds(value)
		case "r":
			n, err := strconv.ParseUint(value, 10, 31)
			if l.Remaining = int(n); err != nil {
				return "", false
			}
		}
	}
	s = strings.TrimLeft(s, " \t")
	if !ok || s == "" {
		return "", ok
	}
	if s[0] != ',' {
		return "", false
	}
	s = strings.TrimLeft(s[1:], " \t")
	return s, s != "" // a list does not end in a comma
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
