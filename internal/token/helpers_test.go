// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// now is the present of most tests; no test reads a clock.
var now = time.Unix(1_700_000_000, 0)

// alice is the identity of most tests.
var alice = []byte("ip4:198.51.100.1")

// secret returns a fixed secret, as good as random to everything under test.
func secret(name string) []byte {
	sum := sha256.Sum256([]byte("tallystick test secret " + name))
	return sum[:]
}

// contactLimits has one limit of each kind of state that a token carries.
var contactLimits = []limiter.Limit{
	{Quota: 5, Window: time.Minute},
	{Quota: 50, Window: 24 * time.Hour},
	{Name: "burst", Algorithm: limiter.TokenBucket, Quota: 60, Window: time.Hour, Burst: 5},
}

func compile(t testing.TB, name string, limits ...limiter.Limit) *limiter.Policy {
	t.Helper()
	p, err := limiter.Compile(name, limits)
	require.NoError(t, err)
	return p
}

func newCodec(t testing.TB, p *limiter.Policy, secrets ...[]byte) *Codec {
	t.Helper()
	c, err := New(secrets, p)
	require.NoError(t, err)
	return c
}

// contact returns the codec of most tests, and a holder.
func contact(t testing.TB) (*Codec, Holder) {
	t.Helper()
	c := newCodec(t, compile(t, "contact", contactLimits...), secret("a"))
	return c, c.Holder(alice)
}

// used returns a tally on which n requests were charged at now.
func used(t testing.TB, p *limiter.Policy, n int64) limiter.Tally {
	t.Helper()
	tally, v := p.Step(now, limiter.Tally{}, n)
	require.True(t, v.Admitted)
	return tally
}

// bought returns an own tally of a policy, bought at now.
func bought(p *limiter.Policy, name string, bound bool) Own {
	own := Own{Expires: now.Add(ownLife(p)).Unix(), Bound: bound}
	copy(own.ID[:], name)
	return own
}

// kinds are the three kinds of tally: shared, own, and own and bound.
func kinds(p *limiter.Policy) map[string]Own {
	return map[string]Own{"shared": {}, "own": bought(p, "tally 1", false), "bound": bought(p, "tally 2", true)}
}

// give appends the token of either kind.
func give(h *Holder, own Own, t *limiter.Tally) []byte {
	if own.IsZero() {
		return h.Append(nil, t)
	}
	return h.AppendOwn(nil, own, t)
}

// expires is when that token expires.
func expires(p *limiter.Policy, own Own, t *limiter.Tally) int64 {
	if own.IsZero() {
		return p.Expires(*t)
	}
	return own.Expires
}

// repeat says once more what a token has said.
func repeat(h *Holder, t *Token) []byte { return give(h, t.Own, &t.Tally) }

// sign makes a token of any payload under a real key, by crypto/hmac: what a
// thief of the key could make.
func sign(k *key, payload string) string {
	return signText(k, base64.RawURLEncoding.EncodeToString([]byte(payload)))
}

// signText is sign for a second segment that need not be base64url.
func signText(k *key, segment string) string {
	h := hmac.New(sha256.New, k.window)
	h.Write([]byte(header(k) + segment))
	return header(k) + segment + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// header returns the first segment of a key's tokens, and its dot.
func header(k *key) string { return k.fixed[:strings.Index(k.fixed, ".")+1] }

// payload returns the decoded second segment of a token.
func payload(t testing.TB, tok string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(tok[payloadAt : len(tok)-signatureLen-1])
	require.NoError(t, err)
	return string(b)
}

// rounds returns n; less under the race detector, which makes each round dear and
// finds nothing in it; and least in the cheap form, as for each mutant.
func rounds(n int) int {
	switch {
	case !kit.Whole():
		return n / 5
	case kit.Race:
		return n / 2
	}
	return n
}

// random returns a generator with a fixed seed: a failure repeats itself.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 20)) }

// ownLife is the longest that an own tally of p may live, wherever it is sold.
func ownLife(p *limiter.Policy) time.Duration { return p.PassLife(limiter.MaxWindow) }

// subjectOf returns how tokens name a holder.
func subjectOf(h *Holder) []byte {
	h.name()
	return h.subject[:]
}
