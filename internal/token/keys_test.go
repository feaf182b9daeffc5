// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// What differs in the key id alone is of another secret; what is another policy's, or of another kind,
// is foreign and nothing more, also where the name of one policy begins the other's.
func TestTokensOfAnotherSecret(t *testing.T) {
	for _, name := range []string{"a", "ab", "abc", "contact"} { // names end at each place of a group of base64
		p := compile(t, name, contactLimits...)
		tally := used(t, p, 1)
		h := newCodec(t, p, secret("one"), secret("two")).Holder(alice)
		for kind, own := range kinds(p) {
			theirs := newCodec(t, p, secret("three")).Holder(alice)
			tok := string(give(&theirs, own, &tally))
			require.Equal(t, ErrSecret, refused(t, &h, tok), kind)
			require.Equal(t, ErrSecret, refused(t, &h, tok[:len(tok)-1]+"!"), "%s: nothing is computed", kind)
			require.Equal(t, ErrForeign, refused(t, &h, "A"+tok[1:]), "%s: another header", kind)
			require.Equal(t, ErrForeign, refused(t, &h, tok[:kidEnd]+"A"+tok[kidEnd+1:]), "%s: another header", kind)
			require.Equal(t, ErrForeign, refused(t, &h, tok[:fixedLen-1]+"!"+tok[fixedLen:]), "%s: another claim", kind)
			require.Equal(t, ErrForeign, refused(t, &h, tok[:fixedLen]+"!!!!!!!!!!!!"+tok[fixedLen+12:]), "%s: another policy", kind)
			for _, other := range []string{name + "-2", name + "d", "b" + name[1:]} {
				q := compile(t, other, contactLimits...)
				theirs := newCodec(t, q, secret("three")).Holder(alice)
				require.Equal(t, ErrForeign, refused(t, &h, string(give(&theirs, own, &tally))), "%s: of policy %s", kind, other)
			}
		}
	}
}

func TestKeyIDsAreThoseOfTokens(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	c := newCodec(t, p, secret("one"), secret("two"))
	ids := c.KeyIDs()
	require.Len(t, ids, 2)
	require.NotEqual(t, ids[0], ids[1])
	h, tally := c.Holder(alice), used(t, p, 1)
	header := kit.Must(base64.RawURLEncoding.DecodeString(string(h.Append(nil, &tally))[:payloadAt-1]))(t)
	require.JSONEq(t, `{"alg":"HS256","kid":"`+ids[0]+`","typ":"t+jwt"}`, string(header))
}

// problems returns every [limiter.Problem] that err joins.
func problems(t testing.TB, err error) (all []*limiter.Problem) {
	switch e := err.(type) {
	case nil:
	case *limiter.Problem:
		all = append(all, e)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			all = append(all, problems(t, err)...)
		}
	default:
		require.Failf(t, "not a ConfigError", "%T %v", err, err)
	}
	return all
}

func fields(errs []*limiter.Problem) (names []string) {
	for _, e := range errs {
		names = append(names, e.Field)
	}
	return names
}

// TestSecrets: each bad ring is refused by each of the three that take one,
// with all of its problems.
func TestSecrets(t *testing.T) {
	nine := make([][]byte, 9)
	for i := range nine {
		nine[i] = secret(fmt.Sprint(i))
	}
	p := compile(t, "contact", contactLimits...)
	for name, tt := range map[string]struct {
		secrets [][]byte
		want    []string
	}{
		"one":          {nine[:1], nil},
		"eight":        {nine[:8], nil},
		"long":         {[][]byte{bytes.Repeat([]byte("long"), 100)}, nil},
		"none":         {nil, []string{"Secrets"}},
		"no members":   {[][]byte{}, []string{"Secrets"}},
		"nine":         {nine, []string{"Secrets"}},
		"31 bytes":     {[][]byte{nine[0][:31]}, []string{"Secrets[0]"}},
		"empty":        {[][]byte{nine[0], {}}, []string{"Secrets[1]"}},
		"nil":          {[][]byte{nil}, []string{"Secrets[0]"}},
		"two nil":      {[][]byte{nil, nil}, []string{"Secrets[0]", "Secrets[1]"}},
		"zeros":        {[][]byte{make([]byte, 32)}, []string{"Secrets[0]"}},
		"many zeros":   {[][]byte{make([]byte, 100)}, []string{"Secrets[0]"}},
		"31 zeros":     {[][]byte{append(make([]byte, 31), 1)}, nil},
		"zeros at end": {[][]byte{append([]byte{1}, make([]byte, 31)...)}, nil},
		"repeated":     {[][]byte{nine[0], nine[1], nine[0]}, []string{"Secrets[2]"}},
		"thrice":       {[][]byte{nine[0], nine[0], nine[0]}, []string{"Secrets[1]", "Secrets[2]", "Secrets[2]"}},
		"all at once": {
			append([][]byte{{}, []byte("short"), make([]byte, 32), nine[1]}, nine[:6]...),
			[]string{"Secrets", "Secrets[0]", "Secrets[1]", "Secrets[2]", "Secrets[5]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, fields(problems(t, CheckSecrets(tt.secrets))))
			c, err := New(tt.secrets, p)
			require.Equal(t, tt.want, fields(problems(t, err)))
			require.Equal(t, tt.want == nil, c != nil)
			keyfunc, err := Keyfunc("contact", tt.secrets)
			require.Equal(t, tt.want, fields(problems(t, err)))
			require.Equal(t, tt.want == nil, keyfunc != nil)
		})
	}
}

// An unset variable is the first mistake of all: its error says so, and what makes a secret.
func TestEmptySecretIsExplained(t *testing.T) {
	require.EqualError(t, CheckSecrets([][]byte{[]byte("")}), "Secrets[0]: is empty: is the variable set? `openssl rand -base64 32` makes one")
}

// TestWeakSecrets: a typed secret is told from a drawn one, and what was drawn is never called weak.
func TestWeakSecrets(t *testing.T) {
	for _, weak := range []string{
		strings.Repeat("a", 40), strings.Repeat("0123456789abcdef", 2), strings.Repeat("k3X9", 11), strings.Repeat("secret", 6), "changeme-changeme-changeme-changeme",
		strings.Repeat("q7Lw2ZpV5xNc8RtY", 2) + "q7", "abababababababababababababababababababac", "CHANGEME: 32 bytes from /dev/urandom!", "my very secret passphrase number 17",
		"Passwords are a thing of yesterday, so", "abcdefghijklmnopqrstuvwxyz012345", strings.Repeat("\x00", 31) + "\x01",
	} {
		require.True(t, Weak([]byte(weak)), weak)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		drawn := make([]byte, 32)
		for i := range drawn {
			drawn[i] = byte(rnd.Uint32())
		}
		for _, s := range [][]byte{drawn, []byte(base64.StdEncoding.EncodeToString(drawn)), []byte(hex.EncodeToString(drawn)), []byte(hex.EncodeToString(drawn[:16]))} {
			require.False(t, Weak(s), "%x", s)
		}
	}
}

// TestSecretsAreCopied: a caller may wipe them.
func TestSecretsAreCopied(t *testing.T) {
	s := secret("a")
	h := newCodec(t, compile(t, "contact", contactLimits...), s).Holder(alice)
	clear(s)
	_, same := contact(t)
	tally := used(t, same.codec.format.policy, 1)
	require.Equal(t, same.Append(nil, &tally), h.Append(nil, &tally))
}

// TestAllProblemsAtOnce: bad secrets, bad tiers and a policy that is too long
// are told together.
func TestAllProblemsAtOnce(t *testing.T) {
	p := compile(t, "policy-with-a-name-of-32-letters", huge()...)
	other := compile(t, "contact", contactLimits...)
	c, err := New([][]byte{{}, nil}, p, p, other, p.Scale(2))
	require.Nil(t, c)
	require.Equal(t, []string{"Secrets[0]", "Secrets[1]", "Tiers[1]", "Limits"}, fields(problems(t, err)))
}

// TestTiers: tiers must have the shape of the policy, and are not touched.
func TestTiers(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	for name, q := range map[string]*limiter.Policy{
		"fewer limits":      compile(t, "contact", contactLimits[:2]...),
		"more limits":       compile(t, "contact", append(contactLimits[:3:3], limiter.Limit{Name: "x", Quota: 1, Window: time.Second})...),
		"another order":     compile(t, "contact", contactLimits[1], contactLimits[0], contactLimits[2]),
		"another algorithm": compile(t, "contact", limiter.Limit{Algorithm: limiter.FixedWindow, Quota: 5, Window: time.Minute}, contactLimits[1], contactLimits[2]),
	} {
		_, err := New([][]byte{secret("a")}, p, q)
		require.Equal(t, []string{"Tiers[0]"}, fields(problems(t, err)), name)
	}
	tiers := []*limiter.Policy{p.Scale(2), p.Scale(3), p.Scale(4)}
	last := tiers[2]
	kit.Must(New([][]byte{secret("a")}, p, tiers[:2]...))(t)
	require.Same(t, last, tiers[2], "New must not write behind the caller's slice")
}

// TestKeyIDCollision: two good secrets with one key id are told, not confused.
func TestKeyIDCollision(t *testing.T) {
	numbered := func(n uint64) []byte {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
		return sum[:]
	}
	first, second := collision[0], collision[1]
	require.Equal(t, deriveKey("contact", numbered(first)).kid, deriveKey("contact", numbered(second)).kid)
	p := compile(t, "contact", contactLimits...)
	_, err := New([][]byte{secret("a"), numbered(first), numbered(second)}, p)
	require.Equal(t, []string{"Secrets[2]"}, fields(problems(t, err)))
	require.ErrorContains(t, err, "same key id as Secrets[1]")

	_, err = New([][]byte{numbered(first), numbered(second)}, compile(t, "signup", contactLimits...))
	require.NoError(t, err, "the same secrets do for another policy")
}

// collision numbers two secrets with the same key id for the policy contact, as
// a search through 2¹⁶ of them finds.
var collision = [2]uint64{11014, 60898}

// huge returns limits whose tokens are as long as can be.
func huge() []limiter.Limit {
	limits := make([]limiter.Limit, limiter.MaxLimits)
	for i := range limits {
		limits[i] = limiter.Limit{Name: fmt.Sprint("l", i), Quota: limiter.MaxQuota, Window: time.Duration(i+1) * time.Second}
	}
	return limits
}

// TestTooLong: a policy whose tokens could outgrow MaxLen does not start.
func TestTooLong(t *testing.T) {
	_, err := New([][]byte{secret("a")}, compile(t, "contact", huge()...))
	require.Equal(t, []string{"Limits"}, fields(problems(t, err)))
	require.ErrorContains(t, err, "512 at most")

	// A tier can be what is too long.
	var wide []limiter.Limit
	for i, l := range huge() {
		l.Quota = int64(i + 1)
		wide = append(wide, l)
	}
	p := compile(t, "contact", wide...)
	kit.Must(New([][]byte{secret("a")}, p))(t)
	_, err = New([][]byte{secret("a")}, p, p.Scale(limiter.MaxQuota))
	require.Equal(t, []string{"Limits"}, fields(problems(t, err)))
	var one *limiter.Problem
	require.True(t, errors.As(err, &one))
}
