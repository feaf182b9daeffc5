// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/base64"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/tallystick/tallystick/internal/limiter"
)

// Claims are the claims of a window token, as golang-jwt reads them. Their JSON form, in
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
	// and the counts of that window and the one before it; of a limit that
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

// claims is the same for golang-jwt.
func (fm *format) claims(subject []byte, own Own, exp int64, t *limiter.Tally) *Claims {
	cl := &Claims{Policy: fm.policy.Name(), Expires: exp, Tally: []int64{}}
	if own.Expires == 0 || own.Bound {
		cl.Subject = string(subject)
	}
	if own.Expires != 0 {
		cl.OwnTally = base64.RawURLEncoding.EncodeToString(own.ID[:])
	}
	for i := range fm.fields {
		if f, s := &fm.fields[i], &t[i]; !f.blank(s) {
			cl.Tally = append(cl.Tally, int64(f.id), f.age(exp, s), int64(s.Cur), int64(s.Prev))
		}
	}
	return cl
}

// Keyfunc is [KeyOf] for golang-jwt, as the public package has it.
func Keyfunc(policy string, secrets [][]byte) (jwt.Keyfunc, error) {
	key, err := KeyOf(policy, secrets)
	if err != nil {
		return nil, err
	}
	return func(t *jwt.Token) (any, error) { return key(t.Header) }, nil
}
