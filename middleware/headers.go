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
// Access-Control-Expose-Headers. Config.XRateLimit adds three fields that are not in
// it. The CORS middleware belongs outside of this
// one, so that refusals carry its fields too.
func CORSExposeHeaders() []string {
	return []string{TokenHeader, ChallengeHeader, "RateLimit", "RateLimit-Policy", "Retry-After", DegradedHeader}
}
