// SPDX-License-Identifier: Apache-2.0

package token

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run TestAllocations -memprofilerate 1 -memprofile mem.out ./internal/token,\n" +
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
	exp := unix(p.Expires(&tally))
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
