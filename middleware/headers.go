// SPDX-License-Identifier: Apache-2.0

package middleware

import "github.com/tallystick/tallystick/pow"

// The fields of Tallystick, in the spelling of the documentation.
const (
	// TokenHeader carries window tokens, both ways.
	TokenHeader = "Tallystick-Token"

	// ChallengeHeader carries a challenge to the client, ProofHeader its proof
	// back.
	ChallengeHeader = pow.ChallengeField
	ProofHeader     = pow.ProofField
)

// CORSAllowHeaders returns the request header fields that a CORS configuration
// must allow for pages of other origins: the list for
// Access-Control-Allow-Headers.
func CORSAllowHeaders() []string { return []string{TokenHeader, ProofHeader} }

// CORSExposeHeaders returns the response header fields that a CORS
// configuration must expose for scripts of other origins to read: the list for
// Access-Control-Expose-Headers. It is that of the default, or of all that the policies of
// the program have in Config.Fields. The CORS middleware belongs outside of this
// one, so that refusals carry its fields too.
func CORSExposeHeaders(chosen ...Fields) []string {
	var sent Fields
	for _, f := range chosen {
		sent |= withDefaults(Config{Fields: f}).Fields
	}
	if sent == 0 {
		sent = RateLimitFields
	}
	list := append([]string{TokenHeader, ChallengeHeader}, sent.names()...)
	return append(list, "Retry-After", DegradedHeader)
}
