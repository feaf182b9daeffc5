// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"strconv"
	"strings"
)

// PrefersHTML reports whether HTML has a higher quality in the Accept lines than JSON
// has (RFC 9110 section 12.5.1). At a tie, and for */* alone, it does not: scripts
// rarely say what they want, browsers always do.
func PrefersHTML(accept []string) bool {
	var html, json quality
	for mediaRange, parameters := range ranges(accept) {
		q := parseQuality(parameters)
		is := func(name string) bool { return strings.EqualFold(mediaRange, name) }
		switch {
		case is("text/html"):
			html.note(q, 3)
		case is("text/*"):
			html.note(q, 2)
		case is("application/problem+json"), is("application/json"):
			json.note(q, 3)
		case is("application/*"):
			json.note(q, 2)
		case is("*/*"):
			html.note(q, 1)
			json.note(q, 1)
		}
	}
	return html.thousandths > json.thousandths
}

// quality is the quality of a media type by its most specific range.
type quality struct{ thousandths, specific int }

func (q *quality) note(thousandths, specific int) {
	if specific > q.specific || specific == q.specific && thousandths > q.thousandths {
		*q = quality{thousandths, specific}
	}
}

// parseQuality returns the q parameter in thousandths; 1000 if there is none or
// it is none.
func parseQuality(parameters string) int {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(Trim(parameter), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		if thousandths, ok := parseQvalue(value); ok {
			return thousandths
		}
	}
	return 1000
}

// parseQvalue parses a qvalue of RFC 9110 section 12.4.2: "0" or "1", and up to
// three digits after the point.
func parseQvalue(s string) (thousandths int, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(fraction) > 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+(fraction + "000")[:3], 10, 16)
	return int(n), err == nil && n <= 1000
}
