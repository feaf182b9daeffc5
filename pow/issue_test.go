// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestTerms(t *testing.T) {
	for _, c := range []struct {
		work, signed uint64
		ttl          time.Duration
	}{
		{0, 0, 10 * time.Second},
		{16, 16, 10 * time.Second},
		{17, 20, 10 * time.Second},
		{20, 20, 10 * time.Second},
		{21, 24, 10 * time.Second},
		{1 << 18, 1 << 18, 10 * time.Second},
		{300_000, 300_000, 10 * time.Second}, // 8 s + 2 s exactly
		{300_004, 300_004, 11 * time.Second}, // one hash more is a second more
		{1 << 20, 1 << 20, 30 * time.Second},
		{2_175_000, 2_175_000, 60 * time.Second}, // 58 s + 2 s exactly
		{2_175_004, 2_175_004, 60 * time.Second},
		{MaxWork - 1, MaxWork, 60 * time.Second},
		{MaxWork, MaxWork, 60 * time.Second},
	} {
		t.Run(fmt.Sprint(c.work), func(t *testing.T) {
			is := newIssuer(t, secretA)
			ch := issued(t, is, c.work)
			require.Equal(t, c.signed, ch.Work)
			require.Equal(t, c.ttl, ch.TTL)
			parsed := kit.Must(parse(ch.Text))(t)
			require.Equal(t, ch, parsed)
			r := kit.Must(is.Verify(epoch, alice, proofOf(t, is, ch.Text)))(t)
			require.Equal(t, c.signed, r.Work)
			require.Equal(t, epoch.Add(c.ttl+time.Second).UTC(), r.Expires)
		})
	}
}

// TestMaxTTL: the life of a challenge grows with its work as far as Config.MaxTTL, and an
// issuer accepts no longer life than it gives.
func TestMaxTTL(t *testing.T) {
	config := func(longest time.Duration) Config { return Config{Secrets: [][]byte{secretA}, MaxTTL: longest} }
	for _, c := range []struct {
		longest time.Duration
		work    uint64
		ttl     time.Duration
	}{
		{0, 1 << 28, time.Minute},
		{10 * time.Second, 1 << 28, 10 * time.Second},
		{time.Minute, 1 << 28, time.Minute},
		{5 * time.Minute, DefaultWork, 10 * time.Second},
		{5 * time.Minute, 2_175_004, 61 * time.Second},
		{5 * time.Minute, 11_175_000, 300 * time.Second}, // 298 s + 2 s exactly
		{5 * time.Minute, 1 << 28, 300 * time.Second},
		{5 * time.Minute, 0, 10 * time.Second},
	} {
		t.Run(fmt.Sprint(c.longest, c.work), func(t *testing.T) {
			is := kit.Must(New(config(c.longest)))(t)
			ch := issued(t, is, c.work)
			require.Equal(t, c.ttl, ch.TTL)
		})
	}
	long, err := New(config(5 * time.Minute))
	require.NoError(t, err)
	c := issued(t, long, 1<<28)
	proof := proofOf(t, long, c.Text)
	kit.Must(long.Verify(epoch.Add(5*time.Minute), alice, proof))(t)
	_, err = long.Verify(epoch.Add(5*time.Minute+time.Second), alice, proof)
	require.ErrorIs(t, err, ErrExpired)
	_, err = newIssuer(t, secretA).Verify(epoch, alice, proof)
	require.ErrorIs(t, err, ErrMalformed, "of another policy")

	for _, longest := range []time.Duration{-1, 1, 9 * time.Second, 10*time.Second + 1, 301 * time.Second, 1 << 62} {
		_, err := New(config(longest))
		require.EqualError(t, err, "pow: Config.MaxTTL: "+span.Text(longest)+", want whole seconds from 10 s to 5 min, or 0 for 1 min")
	}
}

func TestSignedWorkIsNeverLess(t *testing.T) {
	for work := uint64(MinWork); work < MaxWork; work += work/7 + 1 {
		got := workOf(puzzles, spanOf(work))
		require.GreaterOrEqual(t, got, work)
		require.Less(t, got, work+4)
	}
	require.Equal(t, uint64(2), workOf(1, 3), "half a hash is rounded up")
}

func TestIssueRefuses(t *testing.T) {
	is := newIssuer(t, secretA)
	for _, c := range []struct {
		name string
		now  time.Time
		b    Binding
		work uint64
		want string
	}{
		{"work 1", epoch, alice, 1, "pow: work 1, want 0 or 16 to 4294967296"},
		{"work 15", epoch, alice, 15, "pow: work 15, want 0 or 16 to 4294967296"},
		{"work above", epoch, alice, MaxWork + 1, "pow: work 4294967297, want 0 or 16 to 4294967296"},
		{"work overflowing", epoch, alice, math.MaxUint64, "pow: work 18446744073709551615, want 0 or 16 to 4294967296"},
		{"nil client", epoch, Binding{Route: "r"}, 16, "pow: Binding.Client is empty, want an identity"},
		{"empty client", epoch, Binding{Client: []byte{}}, 0, "pow: Binding.Client is empty, want an identity"},
		{"zero time", time.Time{}, alice, 16, "pow: time -62135596800, want Unix seconds from 0 to 4294967295"},
		{"before 1970", time.Unix(0, -1), alice, 16, "pow: time -1, want Unix seconds from 0 to 4294967295"},
		{"after 2106", time.Unix(math.MaxUint32+1, 0), alice, 16, "pow: time 4294967296, want Unix seconds from 0 to 4294967295"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch, err := is.Issue(c.now, c.b, c.work)
			require.EqualError(t, err, c.want)
			require.Zero(t, ch)
		})
	}
	for _, at := range []int64{0, math.MaxUint32} {
		now := time.Unix(at, 999_999_999)
		c := kit.Must(is.Issue(now, alice, 16))(t)
		r := kit.Must(is.Verify(now, alice, proofOf(t, is, c.Text)))(t)
		require.Equal(t, at, r.Issued.Unix())
	}
}

func TestNoncesDiffer(t *testing.T) {
	is := newIssuer(t, secretA)
	seen := map[[nonceLen]byte]bool{}
	for range 1000 {
		c := issued(t, is, 16)
		n := headerOf(t, c.Text).nonce
		require.False(t, seen[n])
		seen[n] = true
	}
}

func TestNewRefuses(t *testing.T) {
	short := []byte("hunter2-hunter2-hunter2-hunter2")
	many := make([][]byte, 9)
	for i := range many {
		many[i] = bytes.Repeat([]byte{byte(i + 1)}, 32)
	}
	for _, c := range []struct {
		name    string
		secrets [][]byte
		want    []string
	}{
		{"none", nil, []string{"Config.Secrets: 0 secrets, want 1 to 8"}},
		{"too many", many, []string{"Config.Secrets: 9 secrets, want 1 to 8"}},
		{"one byte short", [][]byte{short}, []string{"Config.Secrets[0]: 31 bytes, want at least 32"}},
		{"empty", [][]byte{secretA, {}}, []string{"Config.Secrets[1]: 0 bytes, want at least 32"}},
		{"nil", [][]byte{nil}, []string{"Config.Secrets[0]: 0 bytes, want at least 32"}},
		{"all zeros", [][]byte{secretA, make([]byte, 40)}, []string{"Config.Secrets[1]: all zeros; fill it from crypto/rand"}},
		{"repeated", [][]byte{secretA, secretB, bytes.Clone(secretA)}, []string{"Config.Secrets[2]: repeats Config.Secrets[0]"}},
		{"all at once", [][]byte{secretA, short, short, secretA}, []string{
			"Config.Secrets[1]: 31 bytes, want at least 32",
			"Config.Secrets[2]: 31 bytes, want at least 32",
			"Config.Secrets[2]: repeats Config.Secrets[1]",
			"Config.Secrets[3]: repeats Config.Secrets[0]",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			is, err := New(Config{Secrets: c.secrets})
			require.Nil(t, is)
			require.Error(t, err)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(c.want))
			for i, want := range c.want {
				require.Equal(t, "pow: "+want, lines[i])
			}
			requireNoSecret(t, err.Error(), short, secretA)
		})
	}
	t.Run("eight are fine", func(t *testing.T) { newIssuer(t, many[:8]...) })
}

func TestNewKeepsNoSecret(t *testing.T) {
	mine := bytes.Clone(secretA)
	is := newIssuer(t, mine)
	clear(mine)
	proof := solved(t, newIssuer(t, secretA), 16)
	_, err := is.Verify(epoch, alice, proof)
	require.NoError(t, err, "the issuer must not depend on the caller's slice")
}

func TestNoSecretIsPrinted(t *testing.T) {
	c := Config{Secrets: [][]byte{secretA, secretB}}
	is := newIssuer(t, c.Secrets...)
	// Use it once, so that keyed states exist.
	solved(t, is, 16)
	hide := [][]byte{secretA, secretB}
	for _, k := range is.ring.keys {
		hide = append(hide, k.mac, k.num, k.bind)
	}
	type holder struct {
		C Config
		P *Config
		I *Issuer
		V Issuer
	}
	for _, v := range []any{c, &c, is, *is, holder{c, &c, is, *is}, &holder{c, &c, is, *is}, []Config{c}, map[string]any{"c": c, "i": is}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%U"} {
			requireNoSecret(t, fmt.Sprintf(verb, v), hide...)
		}
		j := kit.Must(json.Marshal(v))(t)
		requireNoSecret(t, string(j), hide...)
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).InfoContext(context.Background(), "m", "v", v, slog.Group("g", "v", v))
		}
		requireNoSecret(t, out.String(), hide...)
	}
	require.Equal(t, "pow.Config{2 secrets}", fmt.Sprint(c))
	require.Equal(t, "pow.Issuer", fmt.Sprint(is))
}

// requireNoSecret looks for a quarter of each secret in the spellings that
// formatting produces.
func requireNoSecret(t *testing.T, out string, secrets ...[]byte) {
	t.Helper()
	for _, s := range secrets {
		part := s[:8]
		for _, spelling := range []string{
			string(part),
			hex.EncodeToString(part),
			strings.ToUpper(hex.EncodeToString(part)),
			strings.Trim(fmt.Sprint(part), "[]"),
			strings.TrimSuffix(fmt.Sprintf("%#v", part)[len("[]byte{"):], "}"),
			base64.StdEncoding.EncodeToString(s[:6]),
			base64.URLEncoding.EncodeToString(s[:6]),
			strings.Trim(fmt.Sprintf("%q", part), `"`),
		} {
			require.NotContains(t, out, spelling)
		}
	}
}

func TestRotation(t *testing.T) {
	a, b := newIssuer(t, secretA), newIssuer(t, secretB)
	ab, ba := newIssuer(t, secretA, secretB), newIssuer(t, secretB, secretA)
	for _, c := range []struct {
		name     string
		from, to *Issuer
		want     error
	}{
		{"added behind: old signs, new ring verifies", a, ab, nil},
		{"moved to the front: old still verifies", a, ba, nil},
		{"new signs, instances not yet moved verify", ba, ab, nil},
		{"old signs, instances already moved verify", ab, ba, nil},
		{"removed: new signs, new verifies", ba, b, nil},
		{"removed: old is forged", ab, b, ErrForged},
		{"new is forged where it was never added", ba, a, ErrForged},
		{"strangers", a, b, ErrForged},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.to.Verify(epoch, alice, solved(t, c.from, 16))
			require.ErrorIs(t, err, c.want)
		})
	}
}

// TestKidCollision: one byte of kid collides for one pair of secrets in 256.
func TestKidCollision(t *testing.T) {
	kid := func(s []byte) byte {
		k := kit.Must(derive(s))(t)
		return k.kid
	}
	twin := bytes.Repeat([]byte{7}, 32)
	for i := uint32(0); kid(twin) != kid(secretA); i++ {
		binary.BigEndian.PutUint32(twin, i)
	}
	first := solved(t, newIssuer(t, secretA), 16)
	second := solved(t, newIssuer(t, twin), 16)
	for _, is := range []*Issuer{newIssuer(t, secretA, twin), newIssuer(t, twin, secretA)} {
		for _, proof := range []string{first, second} {
			kit.Must(is.Verify(epoch, alice, proof))(t)
		}
	}
	_, err := newIssuer(t, twin).Verify(epoch, alice, first)
	require.ErrorIs(t, err, ErrForged, "an equal kid is not a key")
}

// TestKidIsChecked: a good MAC under a kid that names another key.
func TestKidIsChecked(t *testing.T) {
	is := newIssuer(t, secretA, secretB)
	h := headerOf(t, issueWith(is, 1_790_000_000, alice, 16, nonce("kid")).Text)
	_, err := is.Verify(epoch, alice, proofOf(t, is, seal(is, 0, h)))
	require.NoError(t, err)
	good := seal(is, 0, h)
	h.kid = is.ring.keys[1].kid
	crossed := seal(is, 0, h)
	_, err = is.Verify(epoch, alice, string(appendProof(nil, crossed, answersOf(t, is, good))))
	require.ErrorIs(t, err, ErrForged)
}

// The world of the tests. Time is an argument everywhere, so it stands still.
var (
	epoch   = time.Unix(1_790_000_000, 0)
	alice   = Binding{Client: []byte{192, 0, 2, 1}, Route: "contact", Tier: "free"}
	secretA = bytes.Repeat([]byte("A7"), 16)
	secretB = bytes.Repeat([]byte("b9"), 20)
)

func newIssuer(t testing.TB, secrets ...[]byte) *Issuer {
	t.Helper()
	return kit.Must(New(Config{Secrets: secrets}))(t)
}

// nonce makes the nonces of a test reproducible.
func nonce(name string) [nonceLen]byte {
	sum := sha256.Sum256([]byte(name))
	return [nonceLen]byte(sum[:nonceLen])
}

// issued issues to alice at epoch.
func issued(t testing.TB, is *Issuer, work uint64) Challenge {
	t.Helper()
	return kit.Must(is.Issue(epoch, alice, work))(t)
}

// issueWith issues around a given nonce.
func issueWith(is *Issuer, at uint32, b Binding, work uint64, n [nonceLen]byte) Challenge {
	w := is.ring.get()
	defer is.ring.put(w)
	w.nonce = n
	return w.issue(at, b, work, is.longest)
}

// answersOf derives the answers instead of searching for them, for tests that
// need many or expensive ones.
func answersOf(t testing.TB, is *Issuer, challenge string) []uint32 {
	t.Helper()
	var h header
	w := is.ring.get()
	defer is.ring.put(w)
	raw := kit.Must(h.decode(&w.raw, challenge))(t)
	key := w.signer(h.kid, raw)
	require.NotNil(t, key)
	numbers := w.numbers(key, raw[:headerLen], h.span)
	return numbers[:h.k]
}

// proofOf writes the right proof of a challenge.
func proofOf(t testing.TB, is *Issuer, challenge string) string {
	t.Helper()
	return string(appendProof(nil, challenge, answersOf(t, is, challenge)))
}

// solved issues to alice at epoch and solves.
func solved(t testing.TB, is *Issuer, work uint64) string {
	t.Helper()
	return kit.Must(Solve(context.Background(), issued(t, is, work).Text, SolveOptions{MaxWork: MaxWork}))(t)
}

// seal signs a header of any content with the ring's key of that index: what a
// buggy or another version of the issuer might have sent.
func seal(is *Issuer, key int, h header) string {
	w := is.ring.get()
	defer is.ring.put(w)
	states := &w.keys[key]
	raw := h.append(nil)
	seed := sha256.Sum256(raw)
	numbers := w.numbers(states, raw, h.span)
	for i := range h.k {
		m := newMessage(&seed, uint32(i))
		sum := m.digest(numbers[i%puzzles])
		raw = append(raw, sum[:targetLen]...)
	}
	raw = append(raw, w.hmac(states.mac, raw)[:macLen]...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// headerOf reads back the header of a challenge.
func headerOf(t testing.TB, challenge string) header {
	t.Helper()
	var h header
	var raw [maxRaw]byte
	kit.Must(h.decode(&raw, challenge))(t)
	return h
}
