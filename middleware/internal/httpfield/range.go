// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"iter"
	"strings"
)

const (
	// maxRanges is how many ranges of a field are looked at, and maxRangeBytes how much of
	// its lines, all together. Browsers send 200 bytes.
	maxRanges     = 32
	maxRangeBytes = 1 << 10
)

// ranges yields the ranges that the lines of an Accept field list, and their parameters.
func ranges(lines []string) iter.Seq2[string, string] {
	return func(yield func(span, parameters string) bool) {
		n, left := 0, maxRangeBytes
		for _, line := range lines {
			for more := true; more; n++ {
				var element string
				element, line, more = strings.Cut(line, ",")
				if left -= len(element); left < 0 || n == maxRanges {
					return
				}
				span, parameters, _ := strings.Cut(element, ";")
				if !yield(Trim(span), parameters) {
					return
				}
			}
		}
	}
}
