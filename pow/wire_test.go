// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestSizes(t *testing.T) {
	is := newIssuer(t, secretA)
	c := issued(t, is, DefaultWork)
	require.Len(t, c.Text, 136)
	c = issued(t, is, 0)
	require.Len(t, c.Text, 72)
	for k := range uint8(mostPuzzles + 1) {
		require.Zero(t, rawLen(k)%3, "no k may leave spare bits in the last character")
	}
}

func TestEveryBitIsSigned(t *testing.T) {
	is := newIssuer(t, secretA)
	for _, work := range []uint64{0, 16, DefaultWork} {
		c := issued(t, is, work)
		proof := proofOf(t, is, c.Text)
		kit.Must(is.Verify(epoch, alice, proof))(t)
		raw := kit.Must(base64.RawURLEncoding.DecodeString(c.Text))(t)
		answers := strings.TrimPrefix(proof, c.Text)
		for bit := range 8 * len(raw) {
			raw[bit/8] ^= 1 << (bit % 8)
			_, err := is.Verify(epoch, alice, base64.RawURLEncoding.EncodeToString(raw)+answers)
			want := ErrForged
			noSpan := bytes.Equal(raw[10:14], make([]byte, 4))
			if at := bit / 8; at == 0 || at == 2 || at == 3 || noSpan != (work == 0) {
				want = ErrMalformed // version, algorithm, k, or R against k
			}
			require.ErrorIs(t, err, want, "work %d, bit %d", work, bit)
			raw[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestOneSpelling: decoders of base64 and of numbers forgive; this format does not. The vectors have the rest.
func TestOneSpelling(t *testing.T) {
	is := newIssuer(t, secretA)
	text, answers, _ := strings.Cut(solved(t, is, 40), "~")
	first, rest, _ := strings.Cut(answers, ".")
	for _, bad := range []string{
		"\n" + text, text + "\n", text + strings.Repeat("\n", 8), text + "=", text[:40] + " " + text[41:], text[:40] + "%2D" + text[43:],
		text[:40] + "\x00" + text[41:], text[:40] + "\xff" + text[41:], text[:len(text)-1], text + "A", text[:len(text)-1] + "~",
		text[:len(text)-4], text + "AAAA", text + "AAAAAAAA", text[:48], text + text,
	} {
		_, err := is.Verify(epoch, alice, bad+"~"+answers)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
		_, err = parse(bad)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
		_, err = Solve(t.Context(), bad, SolveOptions{})
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
	}
	for _, bad := range []string{
		"18446744073709551616." + rest, strings.Repeat("9", 300) + "." + rest, "00." + rest, "-0." + rest, " " + answers, first + " ." + rest, answers + "\n",
		"0x1." + rest, "1_0." + rest, "\u0661." + rest, "." + rest, answers + ".", "." + answers, strings.ReplaceAll(answers, ".", ","), "", answers + "~",
		answers + "~" + text + "~" + answers,
	} {
		_, err := is.Verify(epoch, alice, text+"~"+bad)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
	}
	nothing := issued(t, is, 0).Text
	for _, bad := range []string{nothing, nothing + "~~", nothing + "~.", "~", "~" + text} {
		_, err := is.Verify(epoch, alice, bad)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
	}
}

// TestPuzzleCount: the verifier takes what it issues, the parser what the format
// allows, and neither more.
func TestPuzzleCount(t *testing.T) {
	is := newIssuer(t, secretA)
	for k := range 256 {
		raw := make([]byte, rawLen(uint8(k)))
		raw[0], raw[2], raw[3], raw[13] = version, algorithm, uint8(k), min(4, uint8(k))
		text := base64.RawURLEncoding.EncodeToString(raw)
		_, err := parse(text)
		if k <= mostPuzzles {
			require.NoError(t, err, "k = %d", k)
		} else {
			require.ErrorIs(t, err, ErrMalformed, "k = %d", k)
		}
		want := ErrMalformed
		if k == 0 || k == puzzles {
			want = ErrForged
		}
		proof := appendProof(nil, text, make([]uint32, min(k, 100)))
		_, err = is.Verify(epoch, alice, string(proof))
		require.ErrorIs(t, err, want, "k = %d", k)
	}
}

// TestDetail: the class is for programs, the detail for readers of the log.
func TestDetail(t *testing.T) {
	is := newIssuer(t, secretA)
	proof := solved(t, is, 16)
	for bad, want := range map[string]error{
		"!" + proof[1:]:                    errAlphabet,
		strings.Replace(proof, "~", "", 1): errNoTilde,
		"Ag" + proof[2:]:                   errVersion,
		proof[8:]:                          errVersion,
		proof[:128] + "~" + proof[137:]:    errShape,
		proof + ".":                        errAnswers,
		proof + strings.Repeat("1", 600):   errLong,
	} {
		_, err := is.Verify(epoch, alice, bad)
		require.Equal(t, want, err)
	}
	for _, bad := range []string{"", "AQ", strings.Repeat("A", maxText+4)} {
		_, err := parse(bad)
		require.Equal(t, errShape, err, "told by length, before any byte is read")
	}
}

func TestParseHeader(t *testing.T) {
	is := newIssuer(t, secretA)
	c := issued(t, is, DefaultWork)
	other := issued(t, is, 0)
	newer := "Ag" + c.Text[2:] // version 2
	for name, value := range map[string]string{
		"as rendered":               c.Header(),
		"bare":                      c.Text,
		"spaces and tabs":           " \t" + c.Text + " ; ttl=10 ;\twork=262144 ",
		"other order":               c.Text + ";work=262144;ttl=10",
		"unknown parameters":        c.Text + ";v=2;ttl=10;x;work=262144",
		"parameters without sense":  c.Text + ";ttl=;work=-1;;=",
		"lying parameters":          c.Text + ";ttl=9999;work=1",
		"first of two":              c.Header() + ", " + other.Header(),
		"behind a newer kind":       newer + ";ttl=10, " + c.Header(),
		"behind empty list members": " , ," + c.Header(),
	} {
		t.Run(name, func(t *testing.T) {
			got := kit.Must(ParseHeader(value))(t)
			require.Equal(t, c, got)
		})
	}
	for name, value := range map[string]string{
		"empty":              "",
		"commas":             ",,,",
		"no challenge":       ";ttl=10",
		"two without comma":  c.Text + " " + c.Text,
		"quoted":             `"` + c.Text + `"`,
		"newer kind only":    newer,
		"line break":         c.Text[:10] + "\r\n" + c.Text[10:],
		"too long by spaces": c.Text + strings.Repeat(" ", maxField),
		"too long":           strings.Repeat("A", maxField+1),
		"a token":            "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJjb250YWN0In0.c2ln",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHeader(value)
			require.ErrorIs(t, err, ErrMalformed)
			require.Zero(t, got)
		})
	}
	t.Run("as long as may be", func(t *testing.T) {
		got := kit.Must(ParseHeader(c.Text + strings.Repeat(" ", maxField-len(c.Text))))(t)
		require.Equal(t, c, got)
	})
}

func TestLengthCap(t *testing.T) {
	is := newIssuer(t, secretA)
	_, err := is.Verify(epoch, alice, strings.Repeat("A", maxProofLen+1))
	require.Equal(t, errLong, err)
	_, err = is.Verify(epoch, alice, strings.Repeat("A", maxProofLen))
	require.Equal(t, errNoTilde, err)
	longest := appendProof(nil, strings.Repeat("A", maxText), slices.Repeat([]uint32{math.MaxUint32}, mostPuzzles))
	require.LessOrEqual(t, len(longest), maxProofLen, "room for the longest proof of the format")
}
