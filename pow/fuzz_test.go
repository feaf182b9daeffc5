// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How FuzzVerify helps its input along: a fuzzer does not find a MAC by itself.
const (
	asIs     = iota
	signed   // MAC made right
	answered // MAC and answers made right
	modes
)

// FuzzVerify never panics and agrees in all with the slow verifier.
func FuzzVerify(f *testing.F) {
	secrets := [][]byte{secretA, secretB}
	is, err := New(Config{Secrets: secrets})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, proof string, mode uint8, drift int32, client []byte, route, tier string) {
		now := epoch.Add(time.Duration(drift) * time.Second / 4)
		b := Binding{Client: client, Route: route, Tier: tier}
		proof = assist(proof, mode%modes)
		got, err := is.Verify(now, b, proof)
		want, wantErr := refVerify(secrets, now, b, proof)
		require.Equal(t, want, got)
		if wantErr == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, wantErr)
		}
		for _, other := range []error{ErrMalformed, ErrForged, ErrExpired, ErrBinding, ErrWrong} {
			require.Equal(t, errors.Is(wantErr, other), errors.Is(err, other), "one class each")
		}
	})
}

// assist signs what is well formed, under the key its kid names, if it names one.
func assist(proof string, mode uint8) string {
	text, answers, _ := strings.Cut(proof, "~")
	raw, ok := refRaw(text)
	if mode == asIs || !ok {
		return proof
	}
	secret := secretA
	if refKey(secretB, "kid", 1)[0] == raw[1] {
		secret = secretB
	}
	copy(raw[len(raw)-16:], refMAC(refKey(secret, "mac", 32), raw[:len(raw)-16]))
	if mode == answered && raw[3] <= 8 {
		answers = strings.Join(refNumbers(secret, raw[:38]), ".")
	}
	return base64.RawURLEncoding.EncodeToString(raw) + "~" + answers
}

// FuzzParse: what is accepted has one spelling, and terms in range.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			require.Zero(t, c)
			return
		}
		require.Equal(t, text, c.Text)
		var h header
		var buf [maxRaw]byte
		raw, err := h.decode(&buf, text)
		require.NoError(t, err)
		require.Equal(t, text, base64.RawURLEncoding.EncodeToString(raw))
		require.Equal(t, raw[:headerLen], h.append(nil))
		require.Equal(t, h.k == 0, c.Work == 0)
		require.LessOrEqual(t, len(text), maxText)
	})
}

// FuzzParseHeader: what is accepted is a part of the value, says the same as
// Parse, and survives being rendered.
func FuzzParseHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, value string) {
		c, err := ParseHeader(value)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			require.Zero(t, c)
			return
		}
		require.Contains(t, value, c.Text)
		parsed, err := parse(c.Text)
		require.NoError(t, err)
		require.Equal(t, parsed, c)
		again, err := ParseHeader(c.Header())
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
