// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
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
	return kit.Must(limiter.Compile(name, limits))(t)
}

func newCodec(t testing.TB, p *limiter.Policy, secrets ...[]byte) *Codec {
	t.Helper()
	return kit.Must(New(secrets, p))(t)
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
		return p.Expires(t)
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
	b := kit.Must(base64.RawURLEncoding.DecodeString(tok[payloadAt : len(tok)-signatureLen-1]))(t)
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

func unix(seconds int64) time.Time { return time.Unix(seconds, 0) }

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// randomQuota is as often of one digit as of ten.
func randomQuota(r *rand.Rand, most int64) int64 {
	return 1 + r.Int64N(min(most, 1<<(1+r.IntN(31)))) // at most 2³¹−1: most is
}

var windows = []int64{1, 2, 6, 7, 10, 17, 19, 60, 3600, 3601, 86400, 7 * 86400, 30 * 86400, 366 * 86400}

// randomLimits returns one to most limits of any kind.
func randomLimits(r *rand.Rand, most int) []limiter.Limit {
	limits := make([]limiter.Limit, 1+r.IntN(most))
	for i := range limits {
		l := &limits[i]
		l.Name = fmt.Sprintf("limit-%d", i)
		l.Algorithm = limiter.Algorithm(r.IntN(4))
		l.Window = time.Duration(windows[r.IntN(len(windows))]) * time.Second
		l.Quota = randomQuota(r, limiter.MaxQuota)
		if l.Algorithm == limiter.TokenBucket {
			l.Burst = randomQuota(r, min(limiter.MaxQuota, limiter.MaxWindow.Microseconds()/interval(*l)))
		}
	}
	return limits
}

// interval is the emission interval of a bucket in µs.
func interval(l limiter.Limit) int64 {
	return (l.Window.Microseconds() + l.Quota - 1) / l.Quota
}

// empties is how long a full bucket takes to empty, in µs.
func empties(l limiter.Limit) int64 { return l.Burst * interval(l) }

// overdraft is how much more it may be owed, in µs.
func overdraft(l limiter.Limit) int64 { return empties(l) + l.Window.Microseconds() }

// skew is how far ahead of the clock a tally may be, in µs.
func skew(l limiter.Limit) int64 { return min(5*time.Second, l.Window/10).Microseconds() }

func mark(l limiter.Limit) bool {
	return l.Algorithm == limiter.TokenBucket || l.Algorithm == limiter.LeakyBucket
}

// randomCodec returns a codec for a random policy whose tokens fit.
func randomCodec(t testing.TB, r *rand.Rand, secrets ...[]byte) (*Codec, *limiter.Policy) {
	t.Helper()
	for range 100 {
		p := kit.Must(limiter.Compile(fmt.Sprintf("policy-%d", r.IntN(1000)), randomLimits(r, limiter.MaxLimits)))(t)
		if c, err := New(secrets, p); err == nil {
			return c, p
		}
	}
	require.Fail(t, "no random policy fits")
	return nil, nil
}

// randomTally returns a tally as a decision at now may leave it, with each
// limit used from not at all to the full.
func randomTally(r *rand.Rand, p *limiter.Policy, now time.Time) (t limiter.Tally) {
	count := func(quota int64) uint32 {
		return [...]uint32{0, 1, uint32(r.Int64N(quota + 1)), uint32(quota)}[r.IntN(4)]
	}
	us := now.UnixMicro()
	for i := range p.Len() {
		l := p.Limit(i)
		switch w := l.Window.Microseconds(); {
		case r.IntN(5) == 0: // nothing counted
		case mark(l):
			t[i].At = us + 1 + [...]int64{0, r.Int64N(empties(l)), empties(l) - 1}[r.IntN(3)]
			if r.IntN(4) == 0 { // settled above its burst
				over := 1 + r.Int64N(overdraft(l))
				t[i].At, t[i].Cur = us+empties(l)+over, uint32((over+999_999)/1_000_000)
			}
		default:
			t[i] = limiter.State{At: us / w, Cur: count(l.Quota), Prev: count(l.Quota)}
			if (us/w+1)*w-us <= skew(l) {
				t[i].At += int64(r.IntN(2)) // another instance's clock is ahead
			}
		}
	}
	return t
}

// randomOwn returns a tally of any kind, somewhere in its life at now.
func randomOwn(r *rand.Rand, p *limiter.Policy) (own Own) {
	if r.IntN(3) == 0 {
		return own
	}
	life := int64(ownLife(p) / time.Second)
	own = Own{Expires: now.Unix() + 1 + [...]int64{0, r.Int64N(life), life - 1}[r.IntN(3)], Bound: r.IntN(2) == 0}
	copy(own.ID[:], randomBytes(r, len(own.ID)))
	return own
}

// damage returns s with one small thing wrong.
func damage(r *rand.Rand, s string) string {
	if s == "" {
		return "."
	}
	const letters = `ABCDEabcde0123456789-_.,:"[]{} +/=e` + "\r\n\x00"
	i, c := r.IntN(len(s)), letters[r.IntN(len(letters))]
	switch r.IntN(4) {
	case 0:
		return s[:i] + s[i+1:]
	case 1:
		return s[:i] + string(c) + s[i:]
	case 2:
		return s[:i]
	}
	return s[:i] + string(c) + s[i+1:]
}
