// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
			parsed, err := parse(ch.Text)
			require.NoError(t, err)
			require.Equal(t, ch, parsed)
			r, err := is.Verify(epoch, alice, proofOf(t, is, ch.Text))
			require.NoError(t, err)
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
			is, err := New(config(c.longest))
			require.NoError(t, err)
			ch := issued(t, is, c.work)
			require.Equal(t, c.ttl, ch.TTL)
		})
	}
	long, err := New(config(5 * time.Minute))
	require.NoError(t, err)
	c := issued(t, long, 1<<28)
	proof := proofOf(t, long, c.Text)
	_, err = long.Verify(epoch.Add(5*time.Minute), alice, proof)
	require.NoError(t, err)
	_, err = long.Verify(epoch.Add(5*time.Minute+time.Second), alice, proof)
	require.ErrorIs(t, err, ErrExpired)
	_, err = newIssuer(t, secretA).Verify(epoch, alice, proof)
	require.ErrorIs(t, err, ErrMalformed, "of another policy")

	for _, longest := range []time.Duration{-1, 1, 9 * time.Second, 10*time.Second + 1, 301 * time.Second, 1 << 62} {
		_, err := New(config(longest))
		require.EqualError(t, err, fmt.Sprintf("pow: Config.MaxTTL: %v, want whole seconds from 10s to 300s, or 0 for 60s", longest))
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
		c, err := is.Issue(now, alice, 16)
		require.NoError(t, err)
		r, err := is.Verify(now, alice, proofOf(t, is, c.Text))
		require.NoError(t, err)
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

// TestTagIsKeyed: the same client looks different under another key.
func TestTagIsKeyed(t *testing.T) {
	a := issueWith(newIssuer(t, secretA), 1, alice, 16, nonce("n"))
	b := issueWith(newIssuer(t, secretB), 1, alice, 16, nonce("n"))
	require.NotEqual(t, headerOf(t, a.Text).tag, headerOf(t, b.Text).tag)
}
