// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/words"
)

// written are the inputs for a body, as a page with room for most bytes has them.
func written(body string, most int) (string, why) {
	f := fieldWriter{most: most, words: words.English.Form()}
	why := f.write([]byte(body))
	return string(f.page), why
}

func TestWhatIsNotKept(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for body, want := range map[string]why{
		long + "=x":        isKept,
		long + "n=x":       whyLong,
		"%6e" + long + "=": whyLong,
		strings.Repeat(long+"=x&", maxNames/maxName):         isKept,
		strings.Repeat(long+"=x&", maxNames/maxName) + "n=x": whyLong,
		strings.Repeat("n=x&", maxFields):                    isKept,
		strings.Repeat("n=x&", maxFields) + "n=x":            whyLong,
		"a=%4": whyStrange, "a=%zz": whyStrange, "%4=a": whyStrange, "a=%0g": whyStrange, "=a": whyStrange, "a=b;c": whyStrange,
		"a=%00": whyStrange, "a=\x00": whyStrange, "%00=a": whyStrange, "a=%E9": whyStrange, "%E9=a": whyStrange, "a=%C3&b=%A9": whyStrange, "a=%ED%A0%80": whyStrange, "a=\xff": whyStrange,
		"password=%E9": whyStrange, "_charset_=latin1": whyStrange, "_CHARSET_=UTF-8": isKept, "&&": isKept, "": isKept,
	} {
		_, got := written(body, 1<<20)
		require.Equal(t, want, got, "%.40q", body)
	}
}

// A page is no longer than it may be, nor is anything longer made on the way.
func TestAPageHasABound(t *testing.T) {
	for _, value := range []string{strings.Repeat("'", 1000), strings.Repeat("%22", 1000)} {
		page, why := written("a="+value, 1<<20)
		require.Equal(t, isKept, why)
		require.Less(t, len(page), 5100)
		_, why = written("a="+value, len(page))
		require.Equal(t, isKept, why)
		half := fieldWriter{most: len(page) / 2, words: words.English.Form()}
		require.Equal(t, whyLong, half.write([]byte("a="+value)))
		require.LessOrEqual(t, len(half.page), len(page)/2+20)
	}
}

// Every word of the table is found, where it should be.
func TestSecretNames(t *testing.T) {
	var n nameReader
	kind := func(name string) secretKind { return n.kind([]byte(name)) }
	for _, names := range secretNames {
		for word := range strings.FieldsSeq(names.words) {
			require.Equal(t, names.kind, kind(word), word)
			require.Equal(t, names.kind, kind("a_"+strings.ToUpper(word)+"_9"), word)
			require.Equal(t, names.kind, kind("a["+word+"2]"), word)
			if !names.whole {
				require.Equal(t, names.kind, kind("zz"+word+"zz"), word)
			} else if word != "pass" && word != "card" { // words begin so
				require.Equal(t, notSecret, kind("zz"+word), word)
				require.Equal(t, notSecret, kind(word+"zz"), word)
			}
		}
	}
	for name, want := range map[string]secretKind{
		"cc_no": cardNumber, "cc-n-o": notSecret, "userPin": pin, "userpin": notSecret, "1pin": pin, "PassCode": otherSecret, "card_cvv": cardCode,
		"\u043d\u043e\u0432\u044b\u0439\u041f\u0430\u0440\u043e\u043b\u044c": password, "CONTRASEÑA": password, "naïve": notSecret, "": notSecret,
		// In each language of the pages, and as programs spell them.
		"yeniSifre": password, "sifre_tekrar": password, "ŞİFRE": password, "parol": password, "novyi_parol2": password, "mima": password, "密码": password,
		"パスワード": password, "비밀번호확인": password, "סיסמה": password, "暗証番号": pin, "one-time-code": oneTimeCode, "smsCode": oneTimeCode,
		"userpw": password, "psw": password, "ccv": cardCode, "cardnum": cardNumber, "Kartennummer": cardNumber, "numero_tarjeta": cardNumber,
		"user[password]": password, "mot_de_passe": password, "cvv2": cardCode, "cc-csc": cardCode, "card[number]": cardNumber, "security_code": otherSecret, "2fa": oneTimeCode,
		"recovery-code": otherSecret, "secretAnswer": otherSecret, "acc_value": notSecret, "parolees": notSecret, "mimaki": notSecret,
	} {
		require.Equal(t, want, kind(name), name)
	}
	for name := range strings.FieldsSeq(`name shipping opinion spinner discard postcards compass passenger bypass csrf_token authenticity_token discount
		account_number acc_num success cc utf8 _method description hotpot wildcard é 123`) {
		require.Equal(t, notSecret, kind(name), "%s only sounds like a secret", name)
	}
}

// What is no browser's is not parsed: a type takes as long as it is, and so does an address.
func TestFieldsOfAnyLength(t *testing.T) {
	r := &http.Request{Method: http.MethodPost, Host: "a.example", Header: http.Header{"Content-Type": {string(urlEncoded) + "; boundary=" + strings.Repeat("b", 70)}}}
	require.Equal(t, urlEncoded, kindOf(r))
	r.Header.Set("Content-Type", string(urlEncoded)+strings.Repeat(";a=b", 100))
	require.Equal(t, noForm, kindOf(r))
	r.Header.Set("Referer", (&url.URL{Scheme: "https", Host: "a.example", Path: "/x", Fragment: strings.Repeat("f", maxBack)}).String())
	require.Equal(t, "/x", backOf(r))
	r.Header.Set("Referer", r.Header.Get("Referer")+strings.Repeat("f", maxBack))
	require.Empty(t, backOf(r))
}

// Names are written by the page that has sent the form, as values are.
func TestFieldsAreEscaped(t *testing.T) {
	written := func(body string, isSecret bool) string {
		f := fieldWriter{most: 1 << 20, words: words.English.Form(), isSecret: func(string) bool { return isSecret }}
		require.Equal(t, isKept, f.write([]byte(body)))
		return string(f.page)
	}
	require.Equal(t, "<input type=\"hidden\" name=\"n&#34;&lt;\" value=\"v&#34;&lt; &#39;\">\n", written("n%22<=v\"%3c+'", false))
	require.Equal(t, "<p><label>“n&#34;&lt;” (please type it again) <input type=\"password\" required autofocus name=\"n&#34;&lt;\"></label></p>\n",
		written("n%22%3C=v%22%3C", true), "without its value")
}

// People read a label that they know; a field without one shows its name.
func TestLabelsOfSecrets(t *testing.T) {
	speaking := func(tag string) words.Language {
		return words.For(http.Header{"Content-Language": {tag}}, new(http.Request))
	}
	languages := [...]words.Language{speaking("en"), speaking("de"), speaking("fr")}
	for name, want := range map[string][3]string{
		"password":              {"Password", "Passwort", "Mot de passe"},
		"user[newPassword]":     {"Password", "Passwort", "Mot de passe"},
		"Kennwort":              {"Password", "Passwort", "Mot de passe"},
		"pin2":                  {"PIN", "PIN", "Code PIN"},
		"totp":                  {"One-time code", "Einmalcode", "Code à usage unique"},
		"cc-number":             {"Card number", "Kartennummer", "Numéro de carte"},
		"card_cvc":              {"Security code of the card", "Prüfnummer der Karte", "Cryptogramme de la carte"},
		"maiden":                {"“maiden”", "„maiden“", "« maiden »"},
		"passcode":              {"“passcode”", "„passcode“", "« passcode »"},
		strings.Repeat("é", 41): {"“" + strings.Repeat("é", 40) + "…”", "„" + strings.Repeat("é", 40) + "…“", "« " + strings.Repeat("é", 40) + "… »"},
	} {
		for i := range want {
			f := fieldWriter{most: 1 << 20, words: languages[i].Form(), isSecret: func(string) bool { return true }}
			require.Equal(t, isKept, f.write([]byte(url.QueryEscape(name)+"=x")))
			require.Contains(t, string(f.page), "<label>"+strings.Replace(languages[i].Form().Again, "{}", want[i], 1)+" <input")
		}
	}
	f := fieldWriter{most: 1 << 20, words: words.English.Form()}
	require.Equal(t, isKept, f.write([]byte("a=1&password=x&password2=x")))
	got := string(f.page)
	require.Contains(t, got, `<label>Password (please type it again) <input type="password" required autofocus name="password">`)
	require.Contains(t, got, `<label>Password “password2” (please type it again) <input type="password" required name="password2">`)
}

// The way back is a path of the page's own origin, or there is none.
func TestWayBack(t *testing.T) {
	for referer, want := range map[string]string{
		"":                                               "",
		"https://a.example/form?x=1#y":                   "/form?x=1",
		"http://a.example":                               "/",
		"https://b.example/form":                         "",
		"https://a.example.evil/form":                    "",
		"https://user@a.example/form":                    "/form",
		"javascript:alert(1)//a.example":                 "",
		"javascript://a.example/%0aalert()":              "",
		"//a.example/form":                               "",
		"https://a.example//evil.example/":               "",
		`https://a.example/\evil.example`:                "/%5Cevil.example",
		"https://a.example/" + strings.Repeat("a", 2047): "/" + strings.Repeat("a", 2047),
		"https://a.example/" + strings.Repeat("a", 2048): "",
		"https://a.example/\"><script>":                  "/%22%3E%3Cscript%3E",
		"https://a.example/?\"><script>":                 "/?\"><script>",
	} {
		r := &http.Request{Host: "a.example", Header: http.Header{"Referer": {referer}}}
		require.Equal(t, want, backOf(r), referer)
	}
	got := string((&form{request: new(http.Request), back: "/?\"><script>"}).page(&page.Refusal{RoomWait: time.Second}, ""))
	require.Contains(t, got, `<a href="/?&#34;&gt;&lt;script&gt;">Back without sending</a>`)
}

// Whatever the cause: where instances disagree, no visitor can do anything, and the page says so.
func TestFormOfASiteThatIsSetUpWrongly(t *testing.T) {
	for _, cause := range []page.Cause{page.ProofRequired, page.QuotaExceeded} {
		says := words.English.Page().Setup
		kept := func(r page.Refusal) string {
			return string((&form{request: new(http.Request), body: []byte("a=b")}).page(&r, ""))
		}
		require.Contains(t, kept(page.Refusal{Cause: cause, Setup: true}), says)
		require.NotContains(t, kept(page.Refusal{Cause: cause}), says)
	}
}
