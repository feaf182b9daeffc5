// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Claims are the claims of a window token, as golang-jwt sees them: what a
// service needs that reads tokens with the stock parser. Their JSON form, in
// this order and without spaces, is the payload; [Codec] writes and reads the
// very same bytes without the detour.
type Claims struct {
	// Policy is the audience: a token counts for one policy only.
	Policy string `json:"aud"`

	// Subject says to whom a shared tally belongs, and an own one that is bound:
	// a keyed hash of the identity, never the identity.
	Subject string `json:"sub,omitempty"`

	// OwnTally is the id of an own tally: derived from the challenge that was
	// solved for it.
	OwnTally string `json:"fam,omitempty"`

	// Expires is the end of the second window of the longest limit, or of the
	// own tally's life, in Unix seconds: a NumericDate of RFC 7519.
	Expires int64 `json:"exp"`

	// Tally holds four integers for each limit that has counted something:
	//
	//	id, age, current, previous
	//
	// id is the limit's ([limiter.Policy.ID]). For window algorithms, age is
	// how many windows before the one that Expires begins the counts belong to,
	// and the counts are those of that window and the one before it; of a limit that
	// an own tally has a part of ([limiter.Policy.Pass]), of all before it. For GCRA,
	// age is how many microseconds before Expires the theoretical arrival time
	// lies; current is its overdraft in seconds (see [limiter.State]), mostly 0, and
	// previous is 0.
	Tally []int64 `json:"t"`
}

var _ jwt.Claims = (*Claims)(nil)

// GetExpirationTime implements [jwt.Claims].
func (c *Claims) GetExpirationTime() (*jwt.NumericDate, error) {
	return &jwt.NumericDate{Time: time.Unix(c.Expires, 0)}, nil
}

// GetIssuedAt implements [jwt.Claims]: a window token has none.
func (c *Claims) GetIssuedAt() (*jwt.NumericDate, error) { return nil, nil }

// GetNotBefore implements [jwt.Claims]: a window token has none.
func (c *Claims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuer implements [jwt.Claims]: the keys belong to one deployment.
func (c *Claims) GetIssuer() (string, error) { return "", nil }

// GetSubject implements [jwt.Claims].
func (c *Claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience implements [jwt.Claims].
func (c *Claims) GetAudience() (jwt.ClaimStrings, error) {
	return jwt.ClaimStrings{c.Policy}, nil
}

// hs256 is our own value of golang-jwt's method. The package's registry and its
// variable jwt.SigningMethodHS256 can be replaced by any package in the program;
// after that a forged token would pass.
func hs256() *jwt.SigningMethodHMAC {
	return &jwt.SigningMethodHMAC{Name: "HS256", Hash: crypto.SHA256}
}

// Keyfunc returns the key function with which stock golang-jwt verifies the
// window tokens of a policy, for services that want to read what a client has
// used. Parse with
//
//	jwt.ParseWithClaims(s, &token.Claims{}, keyfunc,
//		jwt.WithValidMethods([]string{"HS256"}),
//		jwt.WithAudience(policy), jwt.WithExpirationRequired())
//
// and remember that a token proves what was counted, not that nothing was
// counted since: an older token of the same client verifies as well. A
// program that holds the secrets can also sign.
func Keyfunc(policy string, secrets [][]byte) (jwt.Keyfunc, error) {
	ring, err := newRing(policy, secrets)
	if err != nil {
		return nil, err
	}
	return func(t *jwt.Token) (any, error) {
		if t.Header["alg"] != "HS256" || t.Header["typ"] != typ {
			return nil, fmt.Errorf("%w: not a window token", ErrMalformed)
		}
		kid, _ := t.Header["kid"].(string)
		for i := range ring {
			if subtle.ConstantTimeCompare([]byte(kid), []byte(ring[i].kid)) == 1 {
				return ring[i].window, nil
			}
		}
		return nil, ErrForeign
	}, nil
}
