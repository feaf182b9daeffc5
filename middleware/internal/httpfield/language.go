// SPDX-License-Identifier: Apache-2.0

package httpfield

import "strings"

// Language returns which of the languages offered the Accept-Language lines prefer (RFC
// 9110 section 12.5.4); the first one if none is named, or all are as good. A range such
// as de-CH is matched by de, since there is nothing nearer (RFC 4647 section 3.4); one
// such as fr;q=0 forbids.
func Language(accept []string, offered ...string) string {
	best, most := offered[0], 0
	for _, language := range offered {
		var q quality
		for span, parameters := range ranges(accept) {
			primary, _, _ := strings.Cut(span, "-")
			switch {
			case strings.EqualFold(primary, language):
				q.note(parseQuality(parameters), 2)
			case span == "*":
				q.note(parseQuality(parameters), 1)
			}
		}
		if q.thousandths > most {
			best, most = language, q.thousandths
		}
	}
	return best
}
