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
			placed := name == "later" || name == "takes" || name == "reloads" || name == "wait" || name == "again" || name == "name"
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
		{"", "ru, fr;q=0.5", "fr"},
		{"", "ru", "en"},
		{"", "zh-TW", "zh"},
		{"fr-CA", "de", "fr"},
		{"ru", "de", "en"}, // the site has a language: another would be worse than ours
	} {
		h, r := http.Header{}, &http.Request{Header: http.Header{"Accept-Language": {test.accept}}}
		if test.own != "" {
			h.Set("Content-Language", test.own)
		}
		require.Equal(t, test.want, wordsFor(h, r).language, "%v", test)
	}
}

// Each language has its own way with numbers.
func TestWaits(t *testing.T) {
	for i, want := range [...][5]string{
		{"Try again in 1 second.", "Try again in 119 seconds.", "Try again in 3 minutes.", "Try again in 3 hours.", "Try again in 3 days."},
		{"Bitte in 1 Sekunde noch einmal versuchen.", "Bitte in 119 Sekunden noch einmal versuchen.", "Bitte in 3 Minuten noch einmal versuchen.", "Bitte in 3 Stunden noch einmal versuchen.", "Bitte in 3 Tagen noch einmal versuchen."},
		{"Veuillez réessayer dans 1 seconde.", "Veuillez réessayer dans 119 secondes.", "Veuillez réessayer dans 3 minutes.", "Veuillez réessayer dans 3 heures.", "Veuillez réessayer dans 3 jours."},
		{"Inténtelo de nuevo en 1 segundo.", "Inténtelo de nuevo en 119 segundos.", "Inténtelo de nuevo en 3 minutos.", "Inténtelo de nuevo en 3 horas.", "Inténtelo de nuevo en 3 días."},
		{"Riprovi tra 1 secondo.", "Riprovi tra 119 secondi.", "Riprovi tra 3 minuti.", "Riprovi tra 3 ore.", "Riprovi tra 3 giorni."},
		{"Tente novamente em 1 segundo.", "Tente novamente em 119 segundos.", "Tente novamente em 3 minutos.", "Tente novamente em 3 horas.", "Tente novamente em 3 dias."},
		{"Probeer het over 1 seconde opnieuw.", "Probeer het over 119 seconden opnieuw.", "Probeer het over 3 minuten opnieuw.", "Probeer het over 3 uur opnieuw.", "Probeer het over 3 dagen opnieuw."},
		{"Proszę spróbować ponownie za 1 s.", "Proszę spróbować ponownie za 119 s.", "Proszę spróbować ponownie za 3 min.", "Proszę spróbować ponownie za 3 h.", "Proszę spróbować ponownie za 3 dni."},
		{"1秒後にもう一度お試しください。", "119秒後にもう一度お試しください。", "3分後にもう一度お試しください。", "3時間後にもう一度お試しください。", "3日後にもう一度お試しください。"},
		{"请在1秒后重试。", "请在119秒后重试。", "请在3分钟后重试。", "请在3小时后重试。", "请在3天后重试。"},
	} {
		for j, wait := range [...]time.Duration{time.Second, 119 * time.Second, 121 * time.Second, 3 * time.Hour, 49 * time.Hour} {
			require.Equal(t, want[j], string(speech[i].appendWait(nil, speech[i].later, wait)))
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
		for i := range want {
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
	got := string(FormPage(&Refusal{RoomWait: time.Second}, KeptForm{request: new(http.Request), words: &speech[0], back: "/?\"><script>"}, ""))
	require.Contains(t, got, `<a href="/?&#34;&gt;&lt;script&gt;">Back without sending</a>`)
}

// Whatever the cause: where instances disagree, no visitor can do anything, and each page says so.
func TestPagesOfASiteThatIsSetUpWrongly(t *testing.T) {
	for i := range speech {
		w := &speech[i]
		for _, cause := range []Cause{ProofRequired, QuotaExceeded} {
			r := &http.Request{Method: http.MethodPost, Header: http.Header{"Accept-Language": {w.language}}}
			form := KeptForm{request: r, words: w, body: []byte("a=b")}
			require.Contains(t, string(FormPage(&Refusal{Cause: cause, Setup: true}, form, "")), w.setup)
			require.NotContains(t, string(FormPage(&Refusal{Cause: cause}, form, "")), w.setup)
			require.Contains(t, string(AppendPage(nil, &Refusal{Cause: cause, Setup: true}, http.Header{}, r, "")), w.setup)
		}
	}
}
