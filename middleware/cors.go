package middleware

import (
	"net/http"

	"github.com/tallystick/tallystick/pow"
)

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

// preflight reports whether r is a CORS preflight (Fetch standard, 4.8). The
// browser sends it without credentials and without asking its user: it is
// neither charged nor refused. Any other OPTIONS request is an ordinary one, and so is
// what no browser would send: a preflight has no body, no credentials, and none of the
// fields that it asks for.
func preflight(r *http.Request) bool {
	if r.Method != http.MethodOptions || r.ContentLength != 0 ||
		len(r.Header["Origin"]) == 0 || len(r.Header["Access-Control-Request-Method"]) == 0 {
		return false
	}
	for _, name := range [...]string{
		"Cookie", "Authorization", "Proxy-Authorization", "X-Api-Key", TokenHeader, ProofHeader,
		// Some routers dispatch by these: the request would be another than it looks.
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override",
	} {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	return true
}
