// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// benchmarked is what most sites have: one limit, one tally, one token.
func benchmarked(b *testing.B) (Holder, limiter.Tally, string) {
	p := compile(b, "contact", contactLimits[0])
	h := newCodec(b, p, secret("new"), secret("old")).Holder(alice)
	tally := used(b, p, 3)
	tok := string(h.Append(nil, &tally))
	kit.Must(h.Verify(now, tok))(b)
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
			got := kit.Must(h.Verify(now, tok))(b)
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
	kit.Must(h.Verify(now, tok))(b)
	for b.Loop() {
		_, _ = h.Verify(now, tok)
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

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run '^$' -bench . -memprofilerate 1 -memprofile mem.out ./internal/token,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it on the stack, or in what the caller has already:\n" +
	"each request, and each forged one, pays for it. Raise a budget only with a reason in the commit."

// TestAllocations: nothing that happens for each request allocates, least of all
// a refusal, whatever a stranger sends (T19, T30).
func TestAllocations(t *testing.T) {
	p := compile(t, "contact", contactLimits...)
	c := newCodec(t, p, secret("new"), secret("old"))
	old := newCodec(t, p, secret("old")).Holder(alice)
	h, stranger := c.Holder(alice), c.Holder([]byte("stranger"))
	tally := used(t, p, 3)
	exp := unix(p.Expires(tally))
	good := string(h.Append(nil, &tally))
	aged, theirs := string(old.Append(nil, &tally)), string(stranger.Append(nil, &tally))
	buffer := make([]byte, 0, MaxLen)
	identity := []byte(strings.Repeat("long", 1000))
	long := c.Holder(identity)
	oldLong := newCodec(t, p, secret("old")).Holder(identity)
	agedLong := string(oldLong.Append(nil, &tally))
	own, bound := bought(p, "tally", false), bought(p, "tally", true)
	goodOwn, goodBound := string(h.AppendOwn(nil, own, &tally)), string(h.AppendOwn(nil, bound, &tally))
	odd := tally
	odd[0].Cur, odd[1].Cur = 1<<31-1, 1<<31-1

	verify := func(tok string, want error) func() {
		return func() {
			if _, err := h.Verify(now, tok); err != want {
				t.Errorf("%v, not %v", err, want)
			}
		}
	}
	for name, f := range map[string]func(){
		"Verify":                           verify(good, nil),
		"Verify under an older key":        verify(aged, nil),
		"Verify own":                       verify(goodOwn, nil),
		"Verify own, bound":                verify(goodBound, nil),
		"Verify, long identity, older key": func() { _, _ = long.Verify(now, agedLong) },
		"AppendOwn":                        func() { buffer = h.AppendOwn(buffer[:0], own, &tally) },
		"AppendOwn, bound":                 func() { buffer = h.AppendOwn(buffer[:0], bound, &odd) },
		"Append":                           func() { buffer = h.Append(buffer[:0], &tally) },
		"Append of great numbers":          func() { buffer = h.Append(buffer[:0], &odd) },
		"Holder":                           func() { _ = c.Holder(alice) },
		"Holder of a long identity":        func() { _ = c.Holder(identity) },
		"T19 600 KB":                       verify(strings.Repeat("A", 600_000), ErrMalformed),
		"T19 600 KB after our header":      verify(good[:fixedLen]+strings.Repeat("A", 600_000)+good[fixedLen:], ErrMalformed),
		"T19 600 KB of dots":               verify(strings.Repeat(".", 600_000), ErrMalformed),
		"T19 600 KB of our tokens":         verify(strings.Repeat(good+",", 600_000/len(good))+good, ErrMalformed),
		"T30 empty":                        verify("", ErrMalformed),
		"T30 foreign":                      verify(strings.Repeat("A", fixedLen)+good[fixedLen:], ErrForeign),
		"T30 foreign, another claim":       verify(sign(c.ring[0], `{"sub":"contact","t":[]}`), ErrForeign),
		"T30 forged":                       verify(good[:len(good)-1]+"A", ErrForged),
		"T30 forged, as long as can be":    verify(good[:fixedLen]+strings.Repeat("A", payloadMax-openingLen)+good[len(good)-signatureLen-1:], ErrForged),
		"T30 signed, not base64":           verify(signText(c.ring[0], c.ring[0].fixed[payloadAt:]+"!!!!"), ErrMalformed),
		"T30 signed, malformed":            verify(sign(c.ring[0], `{"aud":""}`), ErrMalformed),
		"T30 expired":                      func() { _, _ = h.Verify(exp, good) },
		"T30 somebody else's":              verify(theirs, ErrHolder),
		"T30 own, somebody else's":         verify(string(stranger.AppendOwn(nil, bound, &tally)), ErrHolder),
		"T30 own, signed, malformed":       verify(sign(c.ring[0], strings.Replace(payload(t, goodOwn), `"fam":"`, `"fam":"!`, 1)), ErrMalformed),
		"T30 somebody else's, older key's": func() { _, _ = stranger.Verify(now, aged) },
	} {
		t.Run(name, func(t *testing.T) {
			f() // also where nothing can be counted
			if !kit.Race {
				require.Zero(t, testing.AllocsPerRun(100, f), moreAllocations)
			}
		})
	}
	if kit.Race {
		const why = "allocations not counted, the race detector makes sync.Pool drop items; run without -race as well"
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
}
