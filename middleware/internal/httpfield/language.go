// SPDX-License-Identifier: Apache-2.0

package httpfield

import "strings"

// maxLanguages is how many may be offered.
const maxLanguages = 16

// Language returns which of the languages offered the Accept-Language lines prefer (RFC
// 9110 section 12.5.4); the first one if none is named, or all are as good. A range such
// as de-CH is matched by de, since there is nothing nearer (RFC 4647 section 3.4); one
// such as fr;q=0 forbids. The lines are read once, however many are offered, which are in small letters.
func Language(accept []string, offered ...string) string {
	var of [maxLanguages]quality
	var any quality
	for span, parameters := range ranges(accept) {
		if span == "*" {
			any.note(parseQuality(parameters), 1)
			continue
		}
		primary, _, _ := strings.Cut(span, "-")
		if strings.EqualFold(primary, "iw") {
			primary = "he" // Hebrew, by the name that it had until 1989 and has in old programs
		}
		for i, language := range offered {
			if len(primary) == len(language) && primary[0]|0x20 == language[0] && strings.EqualFold(primary, language) {
				of[i].note(parseQuality(parameters), 2)
			}
		}
	}
	best, most := offered[0], 0
	for i, language := range offered {
		q := of[i]
		if q.specific == 0 {
			q = any
		}
		if q.thousandths > most {
			best, most = language, q.thousandths
		}
	}
	return best
}

// AcceptsGzip reports whether the Accept-Encoding lines prefer gzip to what is not compressed
// (RFC 9110 section 12.5.3). No lines, and * alone, do not: a client that decodes gzip names it.
func AcceptsGzip(accept []string) bool { return Language(accept, "identity", "gzip") == "gzip" }
