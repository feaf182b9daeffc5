// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestLifetimeEdges(t *testing.T) {
	is := newIssuer(t, secretA)
	for _, work := range []uint64{0, 16, 1 << 20} {
		issued := epoch.Add(999 * time.Millisecond) // rounded down to epoch
		c := kit.Must(is.Issue(issued, alice, work))(t)
		proof := proofOf(t, is, c.Text)
		last := epoch.Add(c.TTL)
		for _, e := range []struct {
			name string
			now  time.Time
			want error
		}{
			{"two seconds early", epoch.Add(-2 * time.Second), nil},
			{"a nanosecond earlier", epoch.Add(-2*time.Second - 1), ErrAhead},
			{"a second earlier", epoch.Add(-3 * time.Second), ErrAhead},
			{"at issue", issued, nil},
			{"ttl after issue", issued.Add(c.TTL), nil},
			{"ttl after the second of issue", last, nil},
			{"last nanosecond", last.Add(time.Second - 1), nil},
			{"one more", last.Add(time.Second), ErrExpired},
			{"a day later", last.Add(24 * time.Hour), ErrExpired},
			{"zero time", time.Time{}, ErrAhead},
			{"end of time", time.Unix(math.MaxInt64, 0), ErrExpired},
			{"start of time", time.Unix(math.MinInt64, 0), ErrAhead},
			{"another time zone", epoch.In(time.FixedZone("", 3600)), nil},
		} {
			t.Run(fmt.Sprintf("work %d/%s", work, e.name), func(t *testing.T) {
				r, err := is.Verify(e.now, alice, proof)
				require.ErrorIs(t, err, e.want)
				if e.want == ErrAhead {
					require.ErrorIs(t, err, ErrExpired)
					require.Equal(t, Receipt{Issued: epoch.UTC()}, r, "how far")
					return
				}
				require.NotErrorIs(t, err, ErrAhead)
				if e.want != nil {
					require.Zero(t, r)
					return
				}
				require.Equal(t, epoch.UTC(), r.Issued)
				_, err = is.Verify(r.Expires, alice, proof)
				require.ErrorIs(t, err, ErrExpired, "Expires is the first refused instant")
				kit.Must(is.Verify(r.Expires.Add(-1), alice, proof))(t)
			})
		}
	}
}

// TestBindingSwaps: no part of a binding stands for another. The vectors have one of each kind.
func TestBindingSwaps(t *testing.T) {
	is := newIssuer(t, secretA)
	long := Binding{Client: bytes.Repeat([]byte("x"), 2*maxScratch), Route: "r"}
	longer := Binding{Client: append(bytes.Clone(long.Client[1:]), 'y'), Route: "r"}
	base := Binding{Client: []byte("ab"), Route: "cd", Tier: "ef"}
	for name, c := range map[string]struct{ to, shown Binding }{
		"longer client":              {base, Binding{Client: []byte("ab\x00"), Route: "cd", Tier: "ef"}},
		"client and route exchanged": {base, Binding{Client: []byte("cd"), Route: "ab", Tier: "ef"}},
		"boundary moved":             {base, Binding{Client: []byte("abc"), Route: "d", Tier: "ef"}},
		"length prefix imitated":     {base, Binding{Client: []byte("ab\x00\x00\x00\x02cd"), Tier: "ef"}},
		"nothing":                    {base, Binding{}},
		"long":                       {long, longer},
	} {
		for _, work := range []uint64{0, 16} {
			challenge := kit.Must(is.Issue(epoch, c.to, work))(t)
			proof := proofOf(t, is, challenge.Text)
			kit.Must(is.Verify(epoch, c.to, proof))(t)
			_, err := is.Verify(epoch, c.shown, proof)
			require.ErrorIs(t, err, ErrBinding, "%s, work %d", name, work)
		}
	}
}

// TestBounds: signed by a key of the ring, yet not by this version's rules. The vectors have more of these, TestPuzzleCount
// each k, and TestEveryBitIsSigned work without R and R without work.
func TestBounds(t *testing.T) {
	is := newIssuer(t, secretA)
	good := headerOf(t, issueWith(is, 1_790_000_000, alice, DefaultWork, nonce("bounds")).Text)
	empty := headerOf(t, issueWith(is, 1_790_000_000, alice, 0, nonce("bounds")).Text)
	for _, c := range []struct {
		name   string
		change func(*header)
		base   header
		want   error
	}{
		{"as issued", func(*header) {}, good, nil},
		{"ttl 60", func(h *header) { h.ttl = 60 }, good, nil},
		{"ttl 65535", func(h *header) { h.ttl = 65535 }, good, ErrMalformed},
		{"R 4", func(h *header) { h.span = 4 }, good, nil},
		{"R 2^30", func(h *header) { h.span = 1 << 30 }, good, nil},
		{"R 2^32-1", func(h *header) { h.span = math.MaxUint32 }, good, ErrMalformed},
		{"work 0", func(*header) {}, empty, nil},
		{"work 0, ttl 0", func(h *header) { h.ttl = 0 }, empty, ErrMalformed},
		{"work 0, ttl 61", func(h *header) { h.ttl = 61 }, empty, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.base
			c.change(&h)
			w := newWorkspace(is.ring.keys)
			numbers := w.numbers(&w.keys[0], h.append(nil), h.span)
			proof := appendProof(nil, seal(is, 0, h), numbers[:min(h.k, puzzles)])
			_, err := is.Verify(epoch, alice, string(proof))
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestConcurrentUse(t *testing.T) {
	is := newIssuer(t, secretA, secretB)
	kit.Together(8, func(i int) {
		me := Binding{Client: []byte{byte(i)}, Route: "r"}
		for range 200 {
			c, err := is.Issue(epoch, me, 0)
			if err == nil {
				_, err = is.Verify(epoch, me, c.Text+"~")
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
}
