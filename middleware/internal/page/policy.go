// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strings"
)

const (
	policyField     = "Content-Security-Policy"
	reportOnlyField = "Content-Security-Policy-Report-Only"
)

// SetPolicy puts our policy for a page in the place of the policy of the site: a browser obeys both, and one that names
// scripts by a nonce forbids ours. The page needs none of what the site permits, and is better off without.
//
// Directives about others stay: which pages may frame it, where violations are reported, and that forms go over TLS.
// Directives about the site's own pages go: a sandbox that is for what users have uploaded, or trusted types that
// the site's scripts make, would only stop this page. A policy on trial would report our scripts as the site's.
//
// A policy that is set later, by a proxy or a writer outside, holds beside ours.
func SetPolicy(h http.Header, ancestors string) {
	// Files of our own origin, and nothing inline. The image is the site's icon.
	own := "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"
	var framing []string
	for _, line := range h[policyField] {
		for policy := range strings.SplitSeq(line, ",") {
			framed := false // of two directives of a name in one policy the first holds
			for directive := range strings.SplitSeq(policy, ";") {
				directive = strings.TrimSpace(directive)
				name, _, _ := strings.Cut(strings.ReplaceAll(directive, "\t", " "), " ")
				switch strings.ToLower(name) {
				case "frame-ancestors":
					if !framed {
						framing, framed = append(framing, directive), true
					}
				case "report-uri", "report-to", "upgrade-insecure-requests":
					own += "; " + directive
				}
			}
		}
	}
	if ancestors != "" {
		own += "; frame-ancestors " + ancestors
	}
	h[policyField] = append([]string{own}, framing...) // each holds
	delete(h, reportOnlyField)
}
