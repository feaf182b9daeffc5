// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTokens(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	good := tokenOf("contact", "f", 1)
	fits := rawToken(`{"aud":"contact"}`)
	fits += strings.Repeat("A", maxToken-len(fits))
	for name, c := range map[string]struct {
		lines []string
		want  []string
	}{
		"none":                 {nil, nil},
		"one":                  {[]string{good}, []string{good}},
		"two lines":            {[]string{good, tokenOf("signup", "f", 1)}, []string{good, tokenOf("signup", "f", 1)}},
		"a list":               {[]string{good + " ,\t" + tokenOf("signup", "f", 1)}, []string{good, tokenOf("signup", "f", 1)}},
		"empty members":        {[]string{",, ," + good}, []string{good}},
		"512 bytes":            {[]string{fits}, []string{fits}},
		"513 bytes":            {[]string{fits + "A"}, nil},
		"10 KB":                {[]string{good + long}, nil},
		"10 KB beside it":      {[]string{good + long, good}, []string{good}},
		"in a line over 8 KB":  {[]string{good + "," + long}, nil},
		"after 32 pieces":      {[]string{strings.Repeat(",", 32) + good}, nil},
		"audience of 10 KB":    {[]string{rawToken(`{"aud":"` + long + `"}`)}, nil},
		"audience of 33":       {[]string{rawToken(`{"aud":"` + long[:33] + `"}`)}, nil},
		"audience of 32":       {[]string{rawToken(`{"aud":"` + long[:32] + `"}`)}, []string{rawToken(`{"aud":"` + long[:32] + `"}`)}},
		"no audience":          {[]string{rawToken(`{"sub":"f"}`)}, nil},
		"no subject":           {[]string{rawToken(`{"aud":"contact"}`)}, []string{rawToken(`{"aud":"contact"}`)}},
		"subject is a number":  {[]string{rawToken(`{"aud":"contact","sub":7}`)}, []string{rawToken(`{"aud":"contact","sub":7}`)}},
		"audience is a list":   {[]string{rawToken(`{"aud":["contact"]}`)}, nil},
		"audience spelled ill": {[]string{rawToken(`{"aud":"Contact"}`), rawToken(`{"aud":"a b"}`), rawToken(`{"aud":"a\u000ab"}`), rawToken(`{"aud":""}`)}, nil},
		"payload is no JSON":   {[]string{rawToken(`garbage`), rawToken(`[]`), rawToken(`{"aud":"contact"} {}`)}, nil},
		"payload is no base64": {[]string{"a.a.a"}, nil},
		"parts":                {[]string{"a.b", "a.b.c.d", "..", "a..c", ".b.c", "a.b.", strings.TrimSuffix(good, "c2lnbmF0dXJl"), good[strings.Index(good, "."):]}, nil},
		"other bytes":          {[]string{good[:len(good)-1] + "=", good + "\x7f", "é" + good, strings.Replace(good, ".", "\n.", 1)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, tok := range readTokens(http.Header{tokenField: c.lines}) {
				texts = append(texts, tok.text)
			}
			require.Equal(t, c.want, texts)
		})
	}
}

func TestTallyOfAToken(t *testing.T) {
	of := func(payload string) windowToken {
		tok, ok := parseToken(rawToken(payload))
		require.True(t, ok)
		return tok
	}
	a := of(`{"aud":"contact","sub":"a","n":1}`)
	require.Equal(t, a.tally, of(`{"aud":"contact","sub":"a","n":2}`).tally)
	require.NotEqual(t, a.tally, of(`{"aud":"contact","sub":"b","n":1}`).tally)
	require.NotEqual(t, a.tally, of(`{"aud":"contact"}`).tally)

	own := of(`{"aud":"contact","fam":"a","n":1}`)
	require.Equal(t, own.tally, of(`{"aud":"contact","fam":"a","n":2}`).tally)
	require.NotEqual(t, own.tally, of(`{"aud":"contact","fam":"b","n":1}`).tally)
	require.NotEqual(t, own.tally, a.tally, "a tally is no subject")

	bound := of(`{"aud":"contact","sub":"a","fam":"b"}`)
	require.NotEqual(t, a.tally, bound.tally, "a bound tally is not the shared one of its holder")
	require.Equal(t, bound.tally, of(`{"aud":"contact","sub":"of another key","fam":"b"}`).tally)
	require.NotEqual(t, bound.tally, of(`{"aud":"contact","sub":"a","fam":"c"}`).tally)
}

// FuzzResponse: whatever a server sends, what is kept of it is bounded, is safe to
// send in a field, and a refusal is read to something that can be acted on.
func FuzzResponse(f *testing.F) {
	f.Add(200, tokenOf("contact", "f", 1), "", "")
	f.Add(429, tokenOf("a", "f", 1)+", "+tokenOf("b", "f", 1), "", "7")
	f.Add(403, "a.b.c", "AAAA;ttl=10;work=262144", "")
	f.Add(429, "a..c,", ",,,;", "999999999")
	f.Add(503, rawToken(`{"aud":["contact"]}`), "", "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Add(429, rawToken(`{"AUD":"contact","sub":{}}`), "", "-1")
	f.Add(429, base64.RawURLEncoding.EncodeToString([]byte("\r\n")), "", "99999999999999999999")
	f.Fuzz(func(t *testing.T, status int, token, challenge, retry string) {
		h := http.Header{tokenField: {token, token}, "Tallystick-Challenge": {challenge}, "Retry-After": {retry}}
		r, ok := readRefusal(&http.Response{StatusCode: status, Header: h})
		if ok && r.wait != 0 && r.wait < 1e9 {
			t.Fatalf("waits %v", r.wait)
		}
		if r.challenge.TTL > maxTTL || ok && r.challenge.Text != "" && !strings.Contains(challenge, r.challenge.Text) {
			t.Fatalf("challenge %+v", r.challenge)
		}
		var j jar
		for i, tok := range readTokens(h) {
			if len(tok.text) > maxToken || !strings.Contains(token, tok.text) || strings.ContainsAny(tok.text, ", \t\r\n") {
				t.Fatalf("token %q", tok.text)
			}
			if again, ok := parseToken(tok.text); !ok || again != tok {
				t.Fatalf("%+v is read again as %+v", tok, again)
			}
			j.keep("o", []kept{{windowToken: tok, sent: uint64(i)}})
		}
		shown, _ := j.show("o", 0)
		if len(shown) > maxShown {
			t.Fatalf("shows %d", len(shown))
		}
	})
}
