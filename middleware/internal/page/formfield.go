// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A field is one name and value of a form, in the form's order: names may
// repeat.
type field struct {
	name, value string
	secret      bool
}

// maxFields is how many fields are held. A form of people has fewer.
const maxFields = 500

var (
	errManyFields = errors.New("too many fields")
	errFields     = errors.New("not the fields of a form")
)

// parseForm parses a urlencoded body as browsers write it. It takes only what a
// page in UTF-8 gives back as it was, with its line breaks as CR LF. Of all else
// net/url would drop a part, or a browser would change it, and the form that is
// sent again would say something else.
func parseForm(body string) (fields []field, err error) {
	for body != "" {
		var pair string
		pair, body, _ = strings.Cut(body, "&")
		if pair == "" {
			continue
		}
		if len(fields) == maxFields {
			return nil, errManyFields
		}
		left, right, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(left)
		value, valueErr := url.QueryUnescape(right)
		switch {
		case nameErr != nil, valueErr != nil,
			strings.Contains(pair, ";"),          // a separator to some, and not to browsers
			name == "",                           // no browser sends a field without name
			strings.Contains(name+value, "\x00"), // no HTML can say it
			!utf8.ValidString(name), !utf8.ValidString(value),
			strings.EqualFold(name, "_charset_") && !strings.EqualFold(value, "utf-8"): // browsers fill it in
			return nil, errFields
		}
		fields = append(fields, field{name: name, value: value})
	}
	return fields, nil
}

// append appends the input that sends the field again.
func (f *field) append(b []byte) []byte {
	b = append(b, `<input type="hidden" name="`...)
	b = appendEscaped(b, f.name)
	b = append(b, `" value="`...)
	b = appendEscaped(b, f.value)
	return append(b, "\">\n"...)
}

// appendSecret appends the input in which a secret is typed again, with its label.
func (f *field) appendSecret(b []byte, label string, focus bool) []byte {
	b = append(b, "<p><label>"...)
	b = appendEscaped(b, label)
	b = append(b, ` <input type="password" required`...)
	if focus {
		b = append(b, " autofocus"...)
	}
	b = append(b, ` name="`...)
	b = appendEscaped(b, f.name)
	return append(b, "\"></label></p>\n"...)
}

// appendEscaped appends s for the text of an element or a quoted attribute. CR is
// escaped too: of CR LF, and of CR, HTML parsers make LF (HTML, 13.2.3.5).
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; c {
		case '&':
			b = append(b, "&amp;"...)
		case '<':
			b = append(b, "&lt;"...)
		case '>':
			b = append(b, "&gt;"...)
		case '"':
			b = append(b, "&#34;"...)
		case '\'':
			b = append(b, "&#39;"...)
		case '\r':
			b = append(b, "&#13;"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// The words by which fields are known to be secret. A form says nothing of the
// types of its inputs, so names must do, and one too many is better than one too
// few: it is merely typed again. But they are whole words, or two of them, where
// they are short: "shipping" has no PIN, nor "discard" a card.
var (
	secretWords = map[string]bool{
		"pass": true, "pwd": true, "pw": true, "pswd": true, "mdp": true, "clave": true, "пароль": true, "pin": true, "tan": true, "otp": true, "totp": true, "mfa": true, "2fa": true,
		"card": true, "ccno": true, "ccnum": true, "ccnumber": true, "csc": true, "cvn": true, "ssn": true, "secret": true,
		"senha": true, "parola": true, "haslo": true, "wachtwoord": true, "contrasena": true, "contraseña": true,
	}
	secretParts = []string{
		"password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "motdepasse", "pincode", "otpcode",
		"securitycode", "accesscode", "backupcode", "authcode", "verificationcode", "securityanswer", "apikey", "kreditkarte",
		"cardnumber", "cardno", "creditcard", "cvv", "cvc",
	}
)

// kindsOfSecrets are the parts of names by which people are told what to type again, the
// longer ones first. A name without any is told as it is.
var kindsOfSecrets = []struct {
	part string
	kind secretKind
}{
	{"passcode", otherSecret},
	{"pass", password}, {"pwd", password}, {"kennwort", password}, {"motdepasse", password}, {"mdp", password},
	{"contrasena", password}, {"contraseña", password}, {"senha", password}, {"wachtwoord", password}, {"haslo", password}, {"пароль", password},
	{"totp", oneTimeCode}, {"otp", oneTimeCode}, {"2fa", oneTimeCode}, {"mfa", oneTimeCode}, {"verificationcode", oneTimeCode},
	{"cvv", cardCode}, {"cvc", cardCode}, {"csc", cardCode}, {"cvn", cardCode},
	{"cardnumber", cardNumber}, {"cardno", cardNumber}, {"ccnum", cardNumber}, {"ccno", cardNumber}, {"creditcard", cardNumber}, {"kreditkarte", cardNumber},
	{"pin", pin},
}

// label returns what a secret is called: nobody told us the label that it had.
func (f *field) label(w *words) string {
	joined := strings.Join(wordsOf(f.name), "")
	for _, known := range kindsOfSecrets {
		if strings.Contains(joined, known.part) {
			if known.kind == otherSecret {
				break
			}
			return w.secrets[known.kind]
		}
	}
	return f.quoted(w)
}

// maxLabel is how much of a name is shown, in characters.
const maxLabel = 40

// quoted returns the name of a field, in quotes.
func (f *field) quoted(w *words) string {
	name := []rune(f.name)
	if len(name) > maxLabel {
		name = append(name[:maxLabel:maxLabel], '…')
	}
	return strings.Replace(w.name, "%s", string(name), 1)
}

// secretName reports whether a field's name is that of something secret.
func secretName(name string) bool {
	words := wordsOf(name)
	joined := strings.Join(words, "")
	for _, part := range secretParts {
		if strings.Contains(joined, part) {
			return true
		}
	}
	for i, word := range words {
		if secretWords[word] || secretWords[strings.Trim(word, "0123456789")] || i > 0 && secretWords[words[i-1]+word] {
			return true
		}
	}
	return false
}

// wordsOf splits a name where it is not of letters and digits, and where a
// capital follows a small letter: user[new_password], cardNumber.
func wordsOf(name string) (words []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	small := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			small = false
			continue
		case unicode.IsUpper(r) && small:
			end()
		}
		small = unicode.IsLower(r) || unicode.IsDigit(r)
		word.WriteRune(unicode.ToLower(r))
	}
	end()
	return words
}
