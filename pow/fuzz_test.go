// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
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
		raw := kit.Must(h.decode(&buf, text))(t)
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
		parsed := kit.Must(parse(c.Text))(t)
		require.Equal(t, parsed, c)
		again := kit.Must(ParseHeader(c.Header()))(t)
		require.Equal(t, c, again)
	})
}

// A second verifier, written from the package documentation and not from the
// code: slow, obvious, and sharing nothing with the first but the error values.
// The fuzz tests compare the two.

var (
	refText    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	refDecimal = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
)

func refKey(secret []byte, purpose string, n int) []byte {
	k, err := hkdf.Key(sha256.New, secret, nil, "tallystick/pow/"+purpose+"/1", n)
	if err != nil {
		panic(err)
	}
	return k
}

func refMAC(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func refU32(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func refTag(secret []byte, b Binding) []byte {
	return refMAC(refKey(secret, "bind", 32),
		refU32(len(b.Client)), b.Client, refU32(len(b.Route)), []byte(b.Route), refU32(len(b.Tier)), []byte(b.Tier))[:8]
}

// refNumbers are the hidden numbers in exact arithmetic.
func refNumbers(secret, header []byte) []string {
	sum := refMAC(refKey(secret, "num", 32), refU32(0), header)
	r := new(big.Int).SetBytes(header[10:14])
	var words []string
	for i := range int(header[3]) {
		u := new(big.Int).SetBytes(sum[4*i : 4*i+4])
		u.Mul(u, r)
		u.Rsh(u, 32)
		words = append(words, u.String())
	}
	return words
}

// refRaw decodes a challenge, or says no.
func refRaw(text string) ([]byte, bool) {
	if !refText.MatchString(text) {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != text || len(raw) < 54 {
		return nil, false
	}
	if raw[0] != 1 || raw[2] != 1 || len(raw) != 54+6*int(raw[3]) {
		return nil, false
	}
	return raw, true
}

func refVerify(secrets [][]byte, now time.Time, b Binding, proof string) (Receipt, error) {
	var none Receipt
	if len(proof) > 600 {
		return none, ErrMalformed
	}
	halves := strings.SplitN(proof, "~", 2)
	if len(halves) != 2 {
		return none, ErrMalformed
	}
	raw, ok := refRaw(halves[0])
	if !ok {
		return none, ErrMalformed
	}
	k := int(raw[3])
	if k != 0 && k != 8 {
		return none, ErrMalformed
	}
	span := binary.BigEndian.Uint32(raw[10:14])
	if (k == 0) != (span == 0) {
		return none, ErrMalformed
	}
	words := strings.Split(halves[1], ".")
	if k == 0 {
		if halves[1] != "" {
			return none, ErrMalformed
		}
		words = nil
	}
	if len(words) != k {
		return none, ErrMalformed
	}
	for _, w := range words {
		if _, err := strconv.ParseUint(w, 10, 32); err != nil || !refDecimal.MatchString(w) {
			return none, ErrMalformed
		}
	}
	var signer []byte
	for _, s := range secrets {
		if refKey(s, "kid", 1)[0] == raw[1] && hmac.Equal(refMAC(refKey(s, "mac", 32), raw[:len(raw)-16])[:16], raw[len(raw)-16:]) {
			signer = s
		}
	}
	if signer == nil {
		return none, ErrForged
	}
	issued := time.Unix(int64(binary.BigEndian.Uint32(raw[4:8])), 0)
	ttl := time.Duration(binary.BigEndian.Uint16(raw[8:10])) * time.Second
	expires := issued.Add(ttl + time.Second)
	if now.Before(issued.Add(-2 * time.Second)) {
		return Receipt{Issued: issued.UTC()}, ErrAhead
	}
	if !now.Before(expires) {
		return none, ErrExpired
	}
	if ttl < 10*time.Second || ttl > time.Minute || (k == 8 && (span < 4 || span > 1<<30)) {
		return none, ErrMalformed
	}
	if string(refTag(signer, b)) != string(raw[30:38]) {
		return none, ErrBinding
	}
	if k > 0 && strings.Join(refNumbers(signer, raw[:38]), ".") != halves[1] {
		return none, ErrWrong
	}
	id := sha256.Sum256(append([]byte("tallystick/pow/id/1"), raw[:38]...))
	return Receipt{ID: [16]byte(id[:16]), Serial: [6]byte(raw[14:20]), Issued: issued.UTC(), Expires: expires.UTC(), Work: uint64(k) * uint64(span) / 2}, nil
}
