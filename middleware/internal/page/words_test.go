// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// No language lacks a text, and none needs escaping.
func TestEveryLanguageHasEveryWord(t *testing.T) {
	for i := range speech {
		v := reflect.ValueOf(speech[i])
		var check func(name string, v reflect.Value)
		check = func(name string, v reflect.Value) {
			if v.Kind() == reflect.Array {
				for j := range v.Len() {
					if name == "units" || name == "why" && j > 0 || name == "secrets" && j != int(notSecret) && j != int(otherSecret) {
						check(name+"[]", v.Index(j))
					}
				}
				return
			}
			require.NotEmpty(t, v.String(), "%s of %s", name, speech[i].language)
			require.Equal(t, v.String(), string(appendEscaped(nil, v.String())), name)
			placed := name == "wait" || name == "again" || name == "name"
			require.Equal(t, placed, strings.Contains(v.String(), "%s"), name)
		}
		for j := range v.NumField() {
			check(v.Type().Field(j).Name, v.Field(j))
		}
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct{ own, accept, want string }{
		{"", "", "en"},
		{"", "de-CH, en;q=0.5", "de"},
		{"", "ja, fr;q=0.5", "fr"},
		{"", "ja", "en"},
		{"fr-CA", "de", "fr"},
		{"it", "de", "en"}, // the site has a language: another would be worse than ours
	} {
		h, r := http.Header{}, &http.Request{Header: http.Header{"Accept-Language": {test.accept}}}
		if test.own != "" {
			h.Set("Content-Language", test.own)
		}
		require.Equal(t, test.want, wordsFor(h, r).language, "%v", test)
	}
}

func TestWaits(t *testing.T) {
	for wait, want := range map[time.Duration][3]string{
		time.Second:       {"Try again in 1 second.", "Bitte in 1 Sekunde erneut senden.", "Veuillez renvoyer dans 1 seconde."},
		119 * time.Second: {"Try again in 119 seconds.", "Bitte in 119 Sekunden erneut senden.", "Veuillez renvoyer dans 119 secondes."},
		121 * time.Second: {"Try again in 3 minutes.", "Bitte in 3 Minuten erneut senden.", "Veuillez renvoyer dans 3 minutes."},
		3 * time.Hour:     {"Try again in 3 hours.", "Bitte in 3 Stunden erneut senden.", "Veuillez renvoyer dans 3 heures."},
		49 * time.Hour:    {"Try again in 3 days.", "Bitte in 3 Tagen erneut senden.", "Veuillez renvoyer dans 3 jours."},
	} {
		for i := range speech {
			require.Equal(t, want[i], string(speech[i].appendWait(nil, wait)))
		}
	}
}

// People read what they know; where nobody knows it, the name.
func TestLabelsOfSecrets(t *testing.T) {
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
		for i := range speech {
			f := fieldWriter{most: 1 << 20, words: &speech[i], isSecret: func(string) bool { return true }}
			require.Equal(t, isKept, f.write([]byte(url.QueryEscape(name)+"=x")))
			require.Contains(t, string(f.page), "<label>"+strings.Replace(speech[i].again, "%s", want[i], 1)+" <input")
		}
	}
	f := fieldWriter{most: 1 << 20, words: &speech[0]}
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
	got := string(AppendForm(nil, &Refusal{RoomWait: time.Second}, KeptForm{words: &speech[0], back: "/?\"><script>"}))
	require.Contains(t, got, `<a href="/?&#34;&gt;&lt;script&gt;">Back without sending</a>`)
}

// Whatever the cause: where instances disagree, no visitor can do anything, and each page says so.
func TestPagesOfASiteThatIsSetUpWrongly(t *testing.T) {
	for i := range speech {
		w := &speech[i]
		for _, cause := range []Cause{ProofRequired, QuotaExceeded} {
			form := KeptForm{words: w, body: []byte("a=b")}
			require.Contains(t, string(AppendForm(nil, &Refusal{Cause: cause, Setup: true}, form)), w.setup)
			require.NotContains(t, string(AppendForm(nil, &Refusal{Cause: cause}, form)), w.setup)
			require.Contains(t, string(AppendPage(nil, &Refusal{Cause: cause, Setup: true}, http.MethodPost)), speech[0].setup)
		}
	}
}
