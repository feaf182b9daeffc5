// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// secretNames are the words by which fields are known to be secret. A form says nothing of the
// types of its inputs, so names must do, and one too many is better than one too few: it is
// merely typed again. But they are whole words, or two of them, where they are short:
// "shipping" has no PIN, nor "discard" a card.
var secretNames = [...]struct {
	kind  secretKind
	whole bool
	words string
}{
	{password, false, "password passwd passphrase passwort kennwort motdepasse contrase"},
	{password, true, "pass pwd pw pswd mdp clave senha parola haslo wachtwoord"},
	{oneTimeCode, false, "otpcode verificationcode"},
	{oneTimeCode, true, "otp totp mfa 2fa"},
	{cardCode, false, "cvv cvc"},
	{cardCode, true, "csc cvn"},
	{cardNumber, false, "cardnumber cardno creditcard kreditkarte"},
	{cardNumber, true, "ccno ccnum ccnumber"},
	{pin, false, "pincode"},
	{pin, true, "pin"},
	{otherSecret, false, "passcode securitycode accesscode backupcode authcode securityanswer apikey"},
	{otherSecret, true, "tan card ssn secret"},
}

// cyrillic are those in other letters, without their first and last, which are large or small:
// пароль.
var cyrillic = [...]string{"арол", "АРОЛ"}

// maxName is how long the name of a field may be, in bytes.
const maxName = 256

// A sign is a letter or a digit of a name, without its case.
type sign uint8

const (
	none     sign = iota // it is between words
	two                  // of 2FA
	digit                // another
	other                // no letter from a to z
	first                // a, and the others after it
	numSigns = first + 26
)

// A lexicon is secretNames by their signs: a step for each, beginning at the first.
type lexicon struct {
	signs [256]sign
	steps []step
}

type step struct {
	next  [numSigns]uint16 // steps; 0: no word goes on so
	kind  secretKind       // of the word that ends here
	whole bool
}

// theLexicon is made when there is the first form to keep.
var theLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{steps: make([]step, 1)}
	for c := range 256 {
		switch letter := c | 0x20; {
		case c >= utf8.RuneSelf:
			l.signs[c] = other
		case c == '2':
			l.signs[c] = two
		case '0' <= c && c <= '9':
			l.signs[c] = digit
		case 'a' <= letter && letter <= 'z':
			l.signs[c] = first + sign(letter-'a')
		}
	}
	for _, names := range secretNames {
		for word := range strings.FieldsSeq(names.words) {
			at := uint16(0)
			for i := range len(word) {
				s := l.signs[word[i]]
				if l.steps[at].next[s] == 0 {
					l.steps[at].next[s] = uint16(len(l.steps))
					l.steps = append(l.steps, step{})
				}
				at = l.steps[at].next[s]
			}
			l.steps[at].kind, l.steps[at].whole = names.kind, names.whole
		}
	}
	return l
})

// A nameReader reads names of fields. It is used again, because it is large.
type nameReader struct {
	name   [maxName + 1]byte
	signs  [maxName + 1]sign
	wordOf [maxName + 1]uint16 // that each sign is in: 0, none, after the last
}

// decode returns what a name says that is urlencoded: one byte more than maxName if it is too
// long. It is not ok if it says nothing. It is good until the next.
func (n *nameReader) decode(left []byte) (name []byte, ok bool) {
	if i := bytes.IndexAny(left, "%+\x00"); i < 0 {
		return left[:min(len(left), maxName+1)], true
	}
	name = n.name[:0]
	for i, width := 0, 0; i < len(left) && len(name) <= maxName; i += width {
		var c byte
		if c, width = decoded(left, i); c == 0 {
			return nil, false
		}
		name = append(name, c)
	}
	return name, true
}

// split finds the words of a name, and returns how many letters and digits they have in all. It
// is split where it is not of letters and digits, and where a capital follows a small letter:
// user[new_password], cardNumber.
func (n *nameReader) split(name []byte, signs *[256]sign) (length int) {
	word, small := uint16(1), false
	for _, c := range name {
		s, capital := signs[c], 'A' <= c && c <= 'Z'
		if (s == none || capital && small) && length > 0 && n.wordOf[length-1] == word {
			word++
		}
		small = !capital && s != none
		if s != none {
			n.signs[length], n.wordOf[length] = s, word
			length++
		}
	}
	n.wordOf[length] = 0
	return length
}

// kind returns what a field of a name is, as far as that says; the first kind, if it says
// several.
func (n *nameReader) kind(name []byte) (kind secretKind) {
	if slices.ContainsFunc(cyrillic[:], func(part string) bool { return bytes.Contains(name, []byte(part)) }) {
		return password
	}
	l := theLexicon()
	length := n.split(name, &l.signs)
	for i := range length {
		found := notSecret
		for at, j := l.steps[0].next[n.signs[i]], i; at != 0; at = l.steps[at].next[n.signs[j]] {
			if s := &l.steps[at]; s.kind != notSecret && (!s.whole || n.areWords(i, j)) {
				found = s.kind // the longest that begins here: a pass code is no pass
			}
			if j++; j == length {
				break
			}
		}
		if found != notSecret && (kind == notSecret || found < kind) {
			kind = found
		}
	}
	return kind
}

// areWords reports whether the signs from i to j are a word, or two, or have digits around them.
func (n *nameReader) areWords(i, j int) bool {
	isDigit := func(i int) bool { return n.signs[i] == two || n.signs[i] == digit }
	begins := i == 0 || n.wordOf[i-1] != n.wordOf[i] || isDigit(i-1)
	ends := n.wordOf[j] != n.wordOf[j+1] || isDigit(j+1)
	return begins && ends && n.wordOf[j]-n.wordOf[i] <= 1
}
