// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

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
				_, err = h.Verify(now, good)
				require.NoError(t, err)
				_, err = h.Verify(now, forged)
				require.Equal(t, ErrForged, err)
			}
		})
	}
}

// TestSelfCheck: where golang-jwt would no longer read what we sign, nothing
// starts. crypto.RegisterHash is one way to get there.
func TestSelfCheck(t *testing.T) {
	c, h := contact(t)
	tally := used(t, c.format.policy, 2)
	good := string(h.Append(nil, &tally))

	crypto.RegisterHash(crypto.SHA256, func() hash.Hash { return sha512.New512_256() })
	t.Cleanup(func() { crypto.RegisterHash(crypto.SHA256, sha256.New) })
	_, err := New([][]byte{secret("a")}, c.format.policy)
	require.ErrorContains(t, err, "golang-jwt signs a different token than we do")
	require.ErrorContains(t, err, "do not use this build")

	// A codec that has started already is not touched.
	require.Equal(t, good, string(h.Append(nil, &tally)))
	_, err = h.Verify(now, good)
	require.NoError(t, err)
}
