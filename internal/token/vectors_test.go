// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// failures are the classes of testdata/vectors.json.
var failures = map[string]error{
	"":          nil,
	"malformed": ErrMalformed,
	"foreign":   ErrForeign,
	"forged":    ErrForged,
	"expired":   ErrExpired,
	"holder":    ErrHolder,
}

// A vectorPolicy is a policy as the independent implementation knows it.
type vectorPolicy struct {
	Name   string        `json:"name"`
	Limits []vectorLimit `json:"limits"`
}

type vectorLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Quota     int64  `json:"quota"`
	Window    int64  `json:"window"`
	Burst     int64  `json:"burst"`
}

type vectorState struct {
	At   int64  `json:"at"`
	Cur  uint32 `json:"cur"`
	Prev uint32 `json:"prev"`
}

type vectorOwn struct {
	ID      string `json:"id"`
	Expires int64  `json:"expires"`
	Bound   bool   `json:"bound"`
}

type verdict struct {
	Failure string        `json:"failure"`
	Expires int64         `json:"expires"`
	Tally   []vectorState `json:"tally"`
	Own     *vectorOwn    `json:"own"`
}

type vector struct {
	Name     string   `json:"name"`
	Policy   int      `json:"policy"`
	Secrets  []string `json:"secrets"`
	Identity string   `json:"identity"`
	Now      int64    `json:"now"`
	Token    string   `json:"token"`
	Ours     bool     `json:"ours"`
	verdict
}

// compile makes the policy that p describes.
func (p vectorPolicy) compile(t testing.TB) *limiter.Policy {
	var limits []storeless.Limit
	for _, l := range p.Limits {
		limit := storeless.Limit{Name: l.Name, Quota: l.Quota, Window: time.Duration(l.Window) * time.Second, Burst: l.Burst}
		for limit.Algorithm.String() != l.Algorithm {
			limit.Algorithm++
		}
		limits = append(limits, limit)
	}
	return compile(t, p.Name, limits...)
}

// describe is the inverse of compile.
func describe(p *limiter.Policy) vectorPolicy {
	d := vectorPolicy{Name: p.Name()}
	for i := range p.Len() {
		l := p.Limit(i)
		d.Limits = append(d.Limits, vectorLimit{l.Name, l.Algorithm.String(), l.Quota, int64(l.Window / time.Second), l.Burst})
	}
	return d
}

func tallyOf(states []vectorState) (t limiter.Tally) {
	for i, s := range states {
		t[i] = limiter.State(s)
	}
	return t
}

func ownOf(t testing.TB, v *vectorOwn) (own Own) {
	if v != nil {
		own = Own{Expires: v.Expires, Bound: v.Bound}
		require.Equal(t, len(own.ID), copy(own.ID[:], unhex(t, v.ID)))
	}
	return own
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestVectors reads what an independent implementation wrote: valid tokens and
// what they say, refused ones and why.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var file struct {
		Policies []vectorPolicy
		Vectors  []vector
	}
	require.NoError(t, json.Unmarshal(text, &file))

	seen := map[string]int{}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			policy := file.Policies[v.Policy].compile(t)
			var secrets [][]byte
			for _, s := range v.Secrets {
				secrets = append(secrets, unhex(t, s))
			}
			h := newCodec(t, policy, secrets...).Holder(unhex(t, v.Identity))
			want, known := failures[v.Failure]
			require.True(t, known, "failure class %q", v.Failure)

			got, err := h.Verify(time.Unix(v.Now, 0), v.Token)
			require.ErrorIs(t, err, want)
			require.Equal(t, Token{v.Expires, tallyOf(v.Tally), ownOf(t, v.Own)}, got)
			if v.Ours {
				require.Equal(t, v.Token, string(repeat(&h, &got)))
			}
		})
		seen[v.Failure]++
		if v.Own != nil {
			seen["own"]++
		}
	}
	require.GreaterOrEqual(t, seen["own"], 15, "vectors of own tallies")
	for class := range failures {
		require.GreaterOrEqual(t, seen[class], 2, "vectors of class %q", class)
	}
	require.True(t, slices.ContainsFunc(file.Vectors, func(v vector) bool { return v.Ours }))
}
