// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswerSpelling(t *testing.T) {
	is := newIssuer(t, secretA)
	// A challenge whose first answer is zero and whose others are not.
	var text string
	var n []uint32
	for i := 0; text == ""; i++ {
		c := issueWith(is, 1_790_000_000, alice, 40, nonce(fmt.Sprint("answers", i)))
		if n = answersOf(t, is, c.Text); n[0] == 0 && !bytes.Contains(bytesOf(n[1:]), []byte{0}) {
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
		_, err := is.Verify(epoch, alice, c.Text+"~")
		require.NoError(t, err)
		for _, bad := range []string{c.Text, c.Text + "~0", c.Text + "~~", c.Text + "~."} {
			_, err := is.Verify(epoch, alice, bad)
			require.ErrorIs(t, err, ErrMalformed)
		}
	})
}

func bytesOf(n []uint32) []byte {
	var b []byte
	for _, x := range n {
		b = append(b, byte(x))
	}
	return b
}

func TestLengthCap(t *testing.T) {
	is := newIssuer(t, secretA)
	_, err := is.Verify(epoch, alice, strings.Repeat("A", maxProofLen+1))
	require.Equal(t, errLong, err)
	_, err = is.Verify(epoch, alice, strings.Repeat("A", maxProofLen))
	require.Equal(t, errNoTilde, err)
	longest := appendProof(nil, strings.Repeat("A", maxText), largest(mostPuzzles))
	require.LessOrEqual(t, len(longest), maxProofLen, "room for the longest proof of the format")
}

func largest(n int) []uint32 {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = math.MaxUint32
	}
	return numbers
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
