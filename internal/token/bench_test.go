// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// benchmarked is what most sites have: one limit, one tally, one token.
func benchmarked(b *testing.B) (Holder, limiter.Tally, string) {
	p := compile(b, "contact", contactLimits[0])
	h := newCodec(b, p, secret("new"), secret("old")).Holder(alice)
	tally := used(b, p, 3)
	tok := string(h.Append(nil, &tally))
	_, err := h.Verify(now, tok)
	require.NoError(b, err)
	b.ReportAllocs()
	return h, tally, tok
}

// rawTwoHMACs is the floor of verify and sign: two HMAC-SHA256 over 180 bytes
// with a state that is used again, and nothing else.
func rawTwoHMACs() func() {
	h := hmac.New(sha256.New, secret("raw"))
	message, sum := make([]byte, 180), make([]byte, 0, sha256.Size)
	return func() {
		for range 2 {
			h.Reset()
			h.Write(message)
			sum = h.Sum(sum[:0])
		}
	}
}

func BenchmarkRawTwoHMACs(b *testing.B) {
	raw := rawTwoHMACs()
	b.ReportAllocs()
	for b.Loop() {
		raw()
	}
}

// BenchmarkVerifyAndSign is what a request costs here: verify, and sign the next.
// It reports the ratio to the floor, the median of many short turns at both,
// because a shared machine is never the same twice. Its budget is 1.4.
func BenchmarkVerifyAndSign(b *testing.B) {
	h, tally, tok := benchmarked(b)
	raw := rawTwoHMACs()
	buffer := make([]byte, 0, MaxLen)
	ours := func() {
		got, err := h.Verify(now, tok)
		if err != nil || got.Tally != tally {
			b.Fatal(err)
		}
		buffer = h.Append(buffer[:0], &got.Tally)
	}
	for b.Loop() {
		ours()
	}
	const turn = 100
	var ratios []float64
	for range max(1, min(b.N, 200_000)/turn) {
		start := time.Now()
		for range turn {
			ours()
		}
		middle := time.Now()
		for range turn {
			raw()
		}
		ratios = append(ratios, float64(middle.Sub(start))/float64(time.Since(middle)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "×raw")
}

func BenchmarkVerify(b *testing.B) {
	h, _, tok := benchmarked(b)
	for b.Loop() {
		_, _ = h.Verify(now, tok)
	}
}

// BenchmarkOwn is a request of a client that has a tally of its own.
func BenchmarkOwn(b *testing.B) {
	h, tally, _ := benchmarked(b)
	for _, bound := range []bool{false, true} {
		own, name := bought(h.codec.format.policy, "tally", bound), "Unbound"
		if bound {
			name = "Bound"
		}
		tok := string(h.AppendOwn(nil, own, &tally))
		b.Run("Verify/"+name, func(b *testing.B) {
			got, err := h.Verify(now, tok)
			require.NoError(b, err)
			require.Equal(b, Token{own.Expires, tally, own}, got)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h.Verify(now, tok)
			}
		})
		b.Run("Append/"+name, func(b *testing.B) {
			buffer := make([]byte, 0, MaxLen)
			b.ReportAllocs()
			for b.Loop() {
				buffer = h.AppendOwn(buffer[:0], own, &tally)
			}
		})
	}
}

func BenchmarkVerifyOlderKey(b *testing.B) {
	h, tally, _ := benchmarked(b)
	older := newCodec(b, h.codec.format.policy, secret("old")).Holder(alice)
	tok := string(older.Append(nil, &tally))
	_, err := h.Verify(now, tok)
	require.NoError(b, err)
	for b.Loop() {
		_, _ = h.Verify(now, tok)
	}
}

func BenchmarkAppend(b *testing.B) {
	h, tally, _ := benchmarked(b)
	buffer := make([]byte, 0, MaxLen)
	for b.Loop() {
		buffer = h.Append(buffer[:0], &tally)
	}
}

func BenchmarkHolder(b *testing.B) {
	h, _, _ := benchmarked(b)
	for b.Loop() {
		_ = h.codec.Holder(alice)
	}
}

// BenchmarkRefused is what a stranger can order.
func BenchmarkRefused(b *testing.B) {
	h, _, tok := benchmarked(b)
	for _, bb := range []struct {
		name, tok string
		want      error
	}{
		{"600KB", strings.Repeat("A", 600_000), ErrMalformed},
		{"Foreign", strings.Repeat("A", fixedLen) + tok[fixedLen:], ErrForeign},
		{"Forged", tok[:len(tok)-1] + "A", ErrForged},
		{"ForgedLongest", tok[:fixedLen] + strings.Repeat("A", payloadMax-openingLen) + tok[len(tok)-signatureLen-1:], ErrForged},
	} {
		b.Run(bb.name, func(b *testing.B) {
			_, err := h.Verify(now, bb.tok)
			require.Equal(b, bb.want, err)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h.Verify(now, bb.tok)
			}
		})
	}
}
