// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// stock parses a token with golang-jwt as it comes, in the way that [Keyfunc]
// recommends, with every further check the library has.
func stock(t testing.TB, policy string, secrets [][]byte, tok string, at time.Time, more ...jwt.ParserOption) (*Claims, error) {
	t.Helper()
	keyfunc := kit.Must(Keyfunc(policy, secrets))(t)
	claims := &Claims{}
	parsed, err := jwt.ParseWithClaims(tok, claims, keyfunc, append([]jwt.ParserOption{
		jwt.WithValidMethods([]string{"HS256"}),
		jwt.WithAudience(policy),
		jwt.WithAllAudiences(policy),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(func() time.Time { return at }),
	}, more...)...)
	require.Equal(t, err == nil, parsed != nil && parsed.Valid)
	return claims, err
}

// stockSign signs by golang-jwt as it comes.
func stockSign(t testing.TB, k *key, claims jwt.Claims) string {
	t.Helper()
	tok := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	tok.Header["kid"], tok.Header["typ"] = k.kid, "t+jwt"
	return kit.Must(tok.SignedString(k.window))(t)
}

// TestStockRandom: for random policies and tallies of every kind golang-jwt signs the
// token we sign, byte for byte, and reads from it what we read.
func TestStockRandom(t *testing.T) {
	r := random(2)
	secrets := [][]byte{secret("new"), secret("old")}
	signed, seen, empty := 0, map[bool]int{}, false
	n := rounds(150)
	for range n {
		c, p := randomCodec(t, r, secrets...)
		h := c.Holder(randomBytes(r, r.IntN(40)))
		for range 8 {
			tally, own := randomTally(r, p, now), randomOwn(r, p)
			ours := string(give(&h, own, &tally))
			claims := c.format.claims(subjectOf(&h), own, expires(p, own, &tally), &tally)
			if claims.Expires == 0 {
				require.Empty(t, ours)
				continue
			}
			signed++
			seen[own.IsZero()]++
			empty = empty || len(claims.Tally) == 0
			require.Equal(t, stockSign(t, c.ring[0], claims), ours)
			text := kit.Must(json.Marshal(claims))(t)
			require.Equal(t, string(text), payload(t, ours))

			theirs := kit.Must(stock(t, p.Name(), secrets, ours, now, subjectOption(own, &h)))(t)
			require.Equal(t, claims, theirs)

			got := kit.Must(h.Verify(now, ours))(t)
			require.Equal(t, own, got.Own)
			require.Equal(t, claims, c.format.claims(subjectOf(&h), got.Own, got.Expires, &got.Tally))
		}
	}
	require.Greater(t, signed, 4*n)
	require.Greater(t, min(seen[true], seen[false]), n)
	require.True(t, empty, "a tally that has counted nothing")
}

// subjectOption lets the stock parser compare the subject, where there is one.
func subjectOption(own Own, h *Holder) jwt.ParserOption {
	if own.IsZero() || own.Bound {
		return jwt.WithSubject(string(subjectOf(h)))
	}
	return jwt.WithLeeway(0)
}

// TestKeyfuncRefuses: the key function gives no key to another kind of token,
// whatever options its caller has forgotten.
func TestKeyfuncRefuses(t *testing.T) {
	c, _ := contact(t)
	keyfunc := kit.Must(Keyfunc("contact", [][]byte{secret("a")}))(t)
	kid := c.ring[0].kid
	for name, tt := range map[string]struct {
		header map[string]any
		want   error
	}{
		"ours":                {map[string]any{"alg": "HS256", "kid": kid, "typ": "t+jwt"}, nil},
		"T10 alg none":        {map[string]any{"alg": "none", "kid": kid, "typ": "t+jwt"}, ErrMalformed},
		"T10 alg HS512":       {map[string]any{"alg": "HS512", "kid": kid, "typ": "t+jwt"}, ErrMalformed},
		"T10 no alg":          {map[string]any{"kid": kid, "typ": "t+jwt"}, ErrMalformed},
		"T11 no kid":          {map[string]any{"alg": "HS256", "typ": "t+jwt"}, ErrForeign},
		"T11 kid of nobody":   {map[string]any{"alg": "HS256", "kid": "../..", "typ": "t+jwt"}, ErrForeign},
		"T11 kid is a number": {map[string]any{"alg": "HS256", "kid": 1, "typ": "t+jwt"}, ErrForeign},
		"T15 another typ":     {map[string]any{"alg": "HS256", "kid": kid, "typ": "JWT"}, ErrMalformed},
		"T15 no typ":          {map[string]any{"alg": "HS256", "kid": kid}, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := keyfunc(&jwt.Token{Header: tt.header})
			require.ErrorIs(t, err, tt.want)
			if tt.want == nil {
				require.Equal(t, c.ring[0].window, got)
			} else {
				require.Nil(t, got)
			}
		})
	}
}

// acceptAll is a signing method that finds every signature good.
type acceptAll struct{}

func (acceptAll) Alg() string                            { return "HS256" }
func (acceptAll) Sign(string, any) ([]byte, error)       { return make([]byte, 32), nil }
func (acceptAll) Verify(_ string, _ []byte, _ any) error { return nil }

// TestGlobals: golang-jwt and crypto have variables and registries that every
// package of the program can change. None of them changes what we accept or
// sign. Not parallel: each change is undone before the next test.
func TestGlobals(t *testing.T) {
	c, h := contact(t)
	tally := used(t, c.format.policy, 2)
	good := string(h.Append(nil, &tally))
	forged := good[:len(good)-signatureLen] + strings.Repeat("A", signatureLen)
	secrets := [][]byte{secret("a")}

	for name, change := range map[string]func(*testing.T) (undo func()){
		"T12 HS256 registered anew": func(t *testing.T) func() {
			jwt.RegisterSigningMethod("HS256", func() jwt.SigningMethod { return acceptAll{} })
			_, err := stock(t, "contact", secrets, forged, now)
			require.NoError(t, err, "the change must really open the stock parser")
			return func() { jwt.RegisterSigningMethod("HS256", func() jwt.SigningMethod { return jwt.SigningMethodHS256 }) }
		},
		"T12 SigningMethodHS256 replaced": func(t *testing.T) func() {
			old := jwt.SigningMethodHS256
			jwt.SigningMethodHS256 = &jwt.SigningMethodHMAC{Name: "HS256", Hash: crypto.SHA512}
			return func() { jwt.SigningMethodHS256 = old }
		},
		"T12 SigningMethodHS256 changed in place": func(t *testing.T) func() {
			old := *jwt.SigningMethodHS256
			*jwt.SigningMethodHS256 = jwt.SigningMethodHMAC{Name: "none", Hash: crypto.MD5}
			return func() { *jwt.SigningMethodHS256 = old }
		},
		"T12 TimePrecision": func(t *testing.T) func() {
			old := jwt.TimePrecision
			jwt.TimePrecision = time.Hour
			return func() { jwt.TimePrecision = old }
		},
		"T12 MarshalSingleStringAsArray": func(t *testing.T) func() {
			old := jwt.MarshalSingleStringAsArray
			jwt.MarshalSingleStringAsArray = !old
			return func() { jwt.MarshalSingleStringAsArray = old }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(change(t))
			anew, err := New(secrets, c.format.policy)
			require.NoError(t, err)
			holder := anew.Holder(alice)
			for _, h := range []*Holder{&h, &holder} {
				require.Equal(t, good, string(h.Append(nil, &tally)))
				kit.Must(h.Verify(now, good))(t)
				_, err = h.Verify(now, forged)
				require.Equal(t, ErrForged, err)
			}
		})
	}
}

// TestSelfCheck: where the shortcut of a signature is not HMAC-SHA256, nothing starts.
func TestSelfCheck(t *testing.T) {
	c, _ := contact(t)
	require.NoError(t, c.selfCheck())
	broken := *c.ring[0]
	broken.sign = newMAC([]byte("another key"), broken.fixed)
	err := (&Codec{ring: []*key{&broken}, format: c.format}).selfCheck()
	require.ErrorContains(t, err, "crypto/hmac signs a different token than we do; do not use this build")
}
