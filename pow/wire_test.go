// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestLayout(t *testing.T) {
	h := header{
		kid: 0xa1, k: 8, issued: 0x01020304, ttl: 0x0506, span: 0x0708090a,
		nonce: [16]byte{0x10, 15: 0x1f}, tag: [8]byte{0x20, 7: 0x27},
	}
	raw := h.append(nil)
	require.Len(t, raw, headerLen)
	require.Equal(t, []byte{1, 0xa1, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa}, raw[:14])
	require.Equal(t, byte(0x10), raw[14])
	require.Equal(t, byte(0x1f), raw[29])
	require.Equal(t, byte(0x20), raw[30])
	require.Equal(t, byte(0x27), raw[37])
	var back header
	back.read(raw)
	require.Equal(t, h, back)
}

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

// TestOneSpelling: base64 decoders forgive; this format does not.
func TestOneSpelling(t *testing.T) {
	is := newIssuer(t, secretA)
	proof := solved(t, is, 16)
	text, answers, _ := strings.Cut(proof, "~")
	std := kit.Must(base64.RawURLEncoding.DecodeString(text))(t)
	for i := range std[14:30] {
		std[14+i] = 0xff // to have - and _ in it
	}
	for name, bad := range map[string]string{
		"newline in the middle":      text[:40] + "\n" + text[40:],
		"CR LF in the middle":        text[:40] + "\r\n" + text[40:],
		"newline in front":           "\n" + text,
		"newline behind":             text + "\n",
		"four newlines, length of k": text[:40] + "\n\n\n\n" + text[44:],
		"eight newlines behind":      text + strings.Repeat("\n", 8),
		"padding":                    text + "=",
		"much padding":               text + "====",
		"standard alphabet":          base64.RawStdEncoding.EncodeToString(std),
		"space":                      text[:40] + " " + text[41:],
		"percent":                    text[:40] + "%2D" + text[43:],
		"NUL":                        text[:40] + "\x00" + text[41:],
		"not ASCII":                  text[:40] + "\xff" + text[41:],
		"one character less":         text[:len(text)-1],
		"one character more":         text + "A",
		"last character changed":     text[:len(text)-1] + "~",
		"four characters less":       text[:len(text)-4],
		"four characters more":       text + "AAAA",
		"one puzzle more":            text + "AAAAAAAA",
		"empty":                      "",
		"header alone":               text[:48],
		"twice":                      text + text,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := is.Verify(epoch, alice, bad+"~"+answers)
			require.ErrorIs(t, err, ErrMalformed)
			_, err = parse(bad)
			require.ErrorIs(t, err, ErrMalformed)
			_, err = Solve(t.Context(), bad, SolveOptions{})
			require.ErrorIs(t, err, ErrMalformed)
		})
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

func TestHeader(t *testing.T) {
	c := Challenge{Text: "AQ", Work: 262144, TTL: 10 * time.Second}
	require.Equal(t, "AQ;ttl=10;work=262144", c.Header())
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

func TestAnswerSpelling(t *testing.T) {
	is := newIssuer(t, secretA)
	// A challenge whose first answer is zero and whose others are not.
	var text string
	var n []uint32
	for i := 0; text == ""; i++ {
		c := issueWith(is, 1_790_000_000, alice, 40, nonce(fmt.Sprint("answers", i)))
		if n = answersOf(t, is, c.Text); n[0] == 0 && !slices.ContainsFunc(n[1:], func(x uint32) bool { return byte(x) == 0 }) {
			text = c.Text
		}
	}
	var words []string
	for _, x := range n {
		words = append(words, fmt.Sprint(x))
	}
	with := func(i int, s string) string {
		w := append([]string(nil), words...)
		w[i] = s
		return strings.Join(w, ".")
	}
	all := strings.Join(words, ".")
	for _, c := range []struct {
		name, answers string
		want          error
	}{
		{"right", all, nil},
		{"off by one", with(3, fmt.Sprint(n[3]-1)), ErrWrong},
		{"first wrong", with(0, "1"), ErrWrong},
		{"last wrong", with(7, fmt.Sprint(n[7]+1)), ErrWrong},
		{"all wrong", "9.9.9.9.9.9.9.9", ErrWrong},
		{"R itself", with(7, "10"), ErrWrong},
		{"2^32-1", with(7, "4294967295"), ErrWrong},
		{"2^32", with(7, "4294967296"), ErrMalformed},
		{"2^32 more", with(7, fmt.Sprint(uint64(n[7])+1<<32)), ErrMalformed},
		{"2^64 more", with(7, "18446744073709551616"), ErrMalformed},
		{"very long", with(7, strings.Repeat("9", 300)), ErrMalformed},
		{"leading zero", with(7, "0"+words[7]), ErrMalformed},
		{"zero twice", with(0, "00"), ErrMalformed},
		{"plus", with(7, "+"+words[7]), ErrMalformed},
		{"minus zero", with(0, "-0"), ErrMalformed},
		{"space in front", " " + all, ErrMalformed},
		{"space behind", all + " ", ErrMalformed},
		{"space inside", with(3, words[3]+" "), ErrMalformed},
		{"newline behind", all + "\n", ErrMalformed},
		{"exponent", with(7, "1e3"), ErrMalformed},
		{"hexadecimal", with(7, "0x1"), ErrMalformed},
		{"underscore", with(7, "1_0"), ErrMalformed},
		{"fraction", with(7, words[7]+".0"), ErrMalformed},
		{"other digits", with(7, "\u0661"), ErrMalformed},
		{"empty answer", with(3, ""), ErrMalformed},
		{"one missing", strings.Join(words[:7], "."), ErrMalformed},
		{"one extra", all + ".1", ErrMalformed},
		{"dot behind", all + ".", ErrMalformed},
		{"dot in front", "." + all, ErrMalformed},
		{"commas", strings.Join(words, ","), ErrMalformed},
		{"none", "", ErrMalformed},
		{"tilde behind", all + "~", ErrMalformed},
		{"second proof", all + "~" + text + "~" + all, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := is.Verify(epoch, alice, text+"~"+c.answers)
			require.ErrorIs(t, err, c.want)
		})
	}
	t.Run("no tilde", func(t *testing.T) {
		_, err := is.Verify(epoch, alice, text)
		require.ErrorIs(t, err, ErrMalformed)
	})
	t.Run("work 0 takes none", func(t *testing.T) {
		c := issued(t, is, 0)
		kit.Must(is.Verify(epoch, alice, c.Text+"~"))(t)
		for _, bad := range []string{c.Text, c.Text + "~0", c.Text + "~~", c.Text + "~."} {
			_, err := is.Verify(epoch, alice, bad)
			require.ErrorIs(t, err, ErrMalformed)
		}
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

func TestOtherCredentialsAreRefused(t *testing.T) {
	is := newIssuer(t, secretA)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	jwt := part(`{"alg":"HS256","typ":"t+jwt"}`) + "." + part(`{"aud":"contact","exp":1790000100}`) + "." + part(strings.Repeat("s", 32))
	for _, bad := range []string{jwt, jwt + "~", jwt + "~1.2.3.4.5.6.7.8", "~" + jwt, "~", "", "Bearer " + jwt} {
		_, err := is.Verify(epoch, alice, bad)
		require.ErrorIs(t, err, ErrMalformed)
	}
}
