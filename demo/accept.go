// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strconv"
	"strings"
)

// wantsHTML reports whether the client prefers a page to JSON. Browsers name
// text/html first; a client that sends JSON, or names no type, is a script. The limiter's built-in answer decides alike.
func wantsHTML(r *http.Request) bool {
	if mediaType(r) == "application/json" {
		return false
	}
	accept := strings.Join(r.Header["Accept"], ",")
	html := quality(accept, "text/html")
	return html > 0 && html >= quality(accept, "application/json", "application/problem+json")
}

// quality returns the highest q that an Accept header gives to one of the types
// by name; wildcards name nothing.
func quality(accept string, types ...string) float64 {
	best := 0.0
	for element := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(element, ";")
		for _, t := range types {
			if !strings.EqualFold(strings.TrimSpace(name), t) {
				continue
			}
			q := 1.0
			if value, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
				q, _ = strconv.ParseFloat(value, 64) // 0, if it is no number
			}
			best = max(best, q)
		}
	}
	return best
}
