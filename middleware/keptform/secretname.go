// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tallystick/tallystick/middleware/internal/words"
)

// A secretKind is a secret's kind, as its name tells.
type secretKind uint8

const (
	notSecret secretKind = iota
	password
	oneTimeCode
	cardCode
	cardNumber
	pin
	otherSecret // whose name is all that people can be told
	numSecrets
)

// label returns what people call a secret; "" where its name must do.
func (kind secretKind) label(w *words.Form) string {
	switch kind {
	case password:
		return w.Password
	case oneTimeCode:
		return w.OneTimeCode
	case cardCode:
		return w.CardCode
	case cardNumber:
		return w.CardNumber
	case pin:
		return w.PIN
	}
	return ""
}

// secretNames are the words by which fields are known to be secret. A form does not send the
// types of its inputs, so only names are left. One name too many is better than one too few:
// its value is merely typed again. But they are whole words, or two of them, where they are short:
// "shipping" has no PIN, nor "discard" a card.
var secretNames = [...]struct {
	kind  secretKind
	whole bool
	words string
}{
	{password, false, "password passwd passphrase passwort kennwort motdepasse contrase sifre"},
	{password, true, "pass pwd pw psw pswd userpw mdp clave senha parola haslo wachtwoord parol mima"},
	{oneTimeCode, false, "otpcode verificationcode onetimecode smscode"},
	{oneTimeCode, true, "otp totp mfa 2fa"},
	{cardCode, false, "cvv cvc"},
	{cardCode, true, "csc cvn ccv"},
	{cardNumber, false, "cardnumber cardnum cardno creditcard kreditkarte kartennummer kaartnummer tarjeta"},
	{cardNumber, true, "ccno ccnum ccnumber"},
	{pin, false, "pincode"},
	{pin, true, "pin"},
	{otherSecret, false, "passcode securitycode accesscode backupcode authcode recoverycode securityanswer secretanswer apikey"},
	{otherSecret, true, "tan card ssn secret"},
}

// otherLetters are names in letters beyond a to z. The word пароль lacks its first and its last letter here, because they may be
// large or small.
var otherLetters = [...]struct {
	kind  secretKind
	words string
}{
	{password, "арол АРОЛ şifre Şifre ŞİFRE パスワード 密码 密碼 비밀번호 암호 סיסמ"},
	{pin, "暗証番号"},
}

// maxName is how long the name of a field may be, in bytes.
const maxName = 256

// A secretWord is a word of secretNames.
type secretWord struct {
	word  string
	kind  secretKind
	whole bool
}

// secretWords are all of them by their first letter or digit, so that few are tried at each place of a name.
var secretWords = sync.OnceValue(func() [][]secretWord {
	by := make([][]secretWord, utf8.RuneSelf)
	for _, names := range secretNames {
		for word := range strings.FieldsSeq(names.words) {
			by[word[0]] = append(by[word[0]], secretWord{word, names.kind, names.whole})
		}
	}
	return by
})

// A nameReader reads names of fields. It is used again, because it is large.
type nameReader struct {
	name   [maxName + 1]byte
	text   [maxName + 1]byte   // its letters and digits, the letters small
	wordOf [maxName + 1]uint16 // that each of them is in: 0, none, after the last
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
func (n *nameReader) split(name []byte) (length int) {
	word, small := uint16(1), false
	for _, c := range name {
		letter, capital := c|0x20, 'A' <= c && c <= 'Z'
		is := c >= utf8.RuneSelf || isDigit(c) || 'a' <= letter && letter <= 'z'
		if (!is || capital && small) && length > 0 && n.wordOf[length-1] == word {
			word++
		}
		if small = !capital && is; !is {
			continue
		}
		if capital {
			c = letter
		}
		n.text[length], n.wordOf[length] = c, word
		length++
	}
	n.wordOf[length] = 0
	return length
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// kind returns what a field of a name is, as far as that says; the first kind, if it says
// several.
func (n *nameReader) kind(name []byte) (kind secretKind) {
	if slices.ContainsFunc(name, func(c byte) bool { return c >= utf8.RuneSelf }) {
		for _, names := range &otherLetters {
			for word := range strings.FieldsSeq(names.words) {
				if bytes.Contains(name, []byte(word)) {
					return names.kind
				}
			}
		}
	}
	words, text := secretWords(), n.text[:n.split(name)]
	for i, c := range text {
		if c >= utf8.RuneSelf {
			continue
		}
		found, most := notSecret, 0
		for _, w := range words[c] { // the longest that begins here: a pass code is no pass
			if len(w.word) > most && bytes.HasPrefix(text[i:], []byte(w.word)) && (!w.whole || n.areWords(i, i+len(w.word)-1)) {
				found, most = w.kind, len(w.word)
			}
		}
		if found != notSecret && (kind == notSecret || found < kind) {
			kind = found
		}
	}
	return kind
}

// areWords reports whether what is from i to j is a word, or two, or has digits around it.
func (n *nameReader) areWords(i, j int) bool {
	begins := i == 0 || n.wordOf[i-1] != n.wordOf[i] || isDigit(n.text[i-1])
	ends := n.wordOf[j] != n.wordOf[j+1] || isDigit(n.text[j+1])
	return begins && ends && n.wordOf[j]-n.wordOf[i] <= 1
}
