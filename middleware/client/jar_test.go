// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// put keeps a token as the answer to a request does.
func put(j *jar, origin, policy, tally string, n int, sent, route uint64) {
	tok, ok := parseToken(tokenOf(policy, tally, n))
	if !ok {
		panic("not a token")
	}
	j.keep(origin, []kept{{windowToken: tok, sent: sent, route: route}})
}

func shows(j *jar, origin string, route uint64) []claims {
	texts, _ := j.show(origin, route)
	var list []claims
	for _, text := range texts {
		list = append(list, claimsOf(text))
	}
	return list
}

func TestJarNewest(t *testing.T) {
	var j jar
	put(&j, "o", "contact", "f", 1, 1, 0)
	put(&j, "o", "contact", "f", 3, 3, 0)
	put(&j, "o", "contact", "f", 2, 2, 0) // a late answer
	require.Equal(t, []claims{{"contact", "f", 3}}, shows(&j, "o", 0))
	put(&j, "o", "contact", "f", 4, 3, 0) // the same answer names it twice: the last
	require.Equal(t, []claims{{"contact", "f", 4}}, shows(&j, "o", 0))
	require.Empty(t, shows(&j, "other", 0))
}

// A purchase is answered before requests that were sent after it without what it
// bought.
func TestJarKeepsTalliesApart(t *testing.T) {
	var j jar
	put(&j, "o", "contact", "own", 0, 10, 0)
	put(&j, "o", "contact", "shared", 5, 11, 0)
	require.Equal(t, []claims{{"contact", "shared", 5}, {"contact", "own", 0}}, shows(&j, "o", 0))
	put(&j, "o", "contact", "second", 0, 12, 0)
	put(&j, "o", "contact", "third", 0, 13, 0)
	require.Equal(t, []claims{{"contact", "third", 0}, {"contact", "second", 0}, {"contact", "shared", 5}},
		shows(&j, "o", 0), "the one sent first goes")
	put(&j, "o", "contact", "late", 0, 9, 0)
	require.Equal(t, []claims{{"contact", "third", 0}, {"contact", "second", 0}, {"contact", "shared", 5}},
		shows(&j, "o", 0), "also if it has only just come")
}

// What a bound tally's token says of its holder, the shared one's says too.
func TestJarKeepsBoundTalliesApart(t *testing.T) {
	var j jar
	for i, payload := range []string{
		`{"aud":"contact","sub":"alice","n":1}`,
		`{"aud":"contact","sub":"alice","fam":"own","n":2}`,
		`{"aud":"contact","sub":"alice","n":3}`,
		`{"aud":"contact","sub":"alice, by a newer key","fam":"own","n":4}`,
	} {
		tok, ok := parseToken(rawToken(payload))
		require.True(t, ok)
		j.keep("o", []kept{{windowToken: tok, sent: uint64(i + 1)}})
	}
	require.Equal(t, []claims{{"contact", "alice, by a newer key", 4}, {"contact", "alice", 3}}, shows(&j, "o", 0))
}

func TestJarShowsRouteFirst(t *testing.T) {
	var j jar
	for i := range 8 {
		put(&j, "o", fmt.Sprintf("p%d", i), "f", 0, uint64(i+1), uint64(i))
	}
	require.Equal(t, []claims{{"p2", "f", 0}, {"p7", "f", 0}, {"p6", "f", 0}, {"p5", "f", 0}}, shows(&j, "o", 2))
	require.Equal(t, []claims{{"p7", "f", 0}, {"p6", "f", 0}, {"p5", "f", 0}, {"p4", "f", 0}}, shows(&j, "o", 99))
}

// A tally was bought, and the answers to requests from before it, which are sent
// later than the purchase and come after it, name three that are spent.
func TestJarKeepsWhatHasRoom(t *testing.T) {
	var j jar
	for _, tally := range []string{"shared", "first", "second"} {
		_, sent := j.show("o", 1)
		put(&j, "o", "contact", tally, 9, sent, 1)
	}
	_, purchase := j.show("o", 1)
	tok, _ := parseToken(ownToken("contact", "third", 1))
	require.True(t, j.keep("o", []kept{{windowToken: tok, sent: purchase, route: 1, kind: 7, room: 19}}))
	for _, tally := range []string{"shared", "first", "second"} {
		late, _ := parseToken(tokenOf("contact", tally, 9))
		_, sent := j.show("o", 1)
		j.keep("o", []kept{{windowToken: late, sent: sent, route: 1, spent: true}})
	}
	shown := shows(&j, "o", 1)
	require.Equal(t, claims{"contact", "third", 1}, shown[0], "it goes first")
	require.Len(t, shown, maxTallies)
	require.Equal(t, room, j.claim("o", 7, purchase))

	// Beside the tokens of other policies around the same handler.
	for i, policy := range []string{"site", "user", "burst"} {
		tok, _ := parseToken(tokenOf(policy, "f", 9))
		j.keep("o", []kept{{windowToken: tok, sent: 100 + uint64(i), route: 1, spent: true}})
	}
	require.Equal(t, claims{"contact", "third", 1}, shows(&j, "o", 1)[0])
	// As soon as it is spent, it is as good as they are.
	tok, _ = parseToken(ownToken("contact", "third", 20))
	j.keep("o", []kept{{windowToken: tok, sent: 99, route: 1, spent: true}})
	require.Equal(t, full, j.claim("o", 7, purchase))
}

func TestJarClaim(t *testing.T) {
	own := func(tally string, sent uint64, left int) []kept {
		tok, _ := parseToken(ownToken("contact", tally, 1))
		return []kept{{windowToken: tok, sent: sent, kind: 7, room: left}}
	}
	var j jar
	claim := func(sent uint64) stock { return j.claim("o", 7, sent) }
	require.Equal(t, nothing, claim(0))
	for range 10 {
		j.show("o", 0)
	}
	j.keep("o", own("a", 10, 2))
	require.Equal(t, nothing, j.claim("o", 8, 1), "another kind")
	require.Equal(t, room, claim(10))
	j.keep("o", own("a", 10, 5)) // an answer from before: what it leaves is no room
	require.Equal(t, room, claim(10))
	require.Equal(t, full, claim(10))
	j.show("o", 0)
	j.keep("o", own("b", 11, 9))
	j.keep("o", own("b", 10, 1)) // a late answer that left less
	require.Equal(t, nothing, j.claim("o", 8, 1))
	require.Equal(t, room, claim(1))
	require.Equal(t, full, claim(1))
	j.show("o", 0)
	j.keep("o", own("c", 12, unknown))
	require.Equal(t, unsure, claim(12))
	require.Equal(t, nothing, claim(13), "refused with it")
	require.Equal(t, full, claim(12), "and so there is nothing left of it")
}

func TestJarBoughtSince(t *testing.T) {
	var j jar
	tok, _ := parseToken(ownToken("contact", "own", 0))
	for range 5 {
		j.show("o", 0)
	}
	require.True(t, j.keep("o", []kept{{windowToken: tok, sent: 2, kind: 7}}))
	require.True(t, j.boughtSince("o", 7, 1))
	require.True(t, j.boughtSince("o", 7, 5), "sent after the request that bought it, before its answer")
	require.False(t, j.boughtSince("o", 7, 6), "that one has shown it")
	require.False(t, j.boughtSince("o", 8, 1), "another kind")
	require.False(t, j.boughtSince("p", 7, 1), "another origin")
	j.show("o", 0)
	require.False(t, j.keep("o", []kept{{windowToken: tok, sent: 6, kind: 7}}), "not bought once more")
	require.True(t, j.boughtSince("o", 7, 5), "its later tokens are bought as well")
	require.False(t, j.boughtSince("o", 7, 6), "and not once more")
}

// Thousands of policies, thousands of origins, tokens of the longest kind.
func TestJarIsBounded(t *testing.T) {
	var j jar
	fill := func(origins, policies int) {
		for o := range origins {
			for p := range policies {
				text := rawToken(fmt.Sprintf(`{"aud":"policy-%d"}`, p))
				text += strings.Repeat("A", maxToken-len(text))
				tok, ok := parseToken(text)
				require.True(t, ok)
				j.keep(fmt.Sprintf("https://%d.example 443", o), []kept{{windowToken: tok, sent: uint64(p)}})
			}
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	fill(3*maxOrigins, 2*maxTokens)
	fill(1, 5000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Len(t, j.sites, maxOrigins)
	require.Equal(t, maxOrigins, j.recent.Len())
	for _, e := range j.sites {
		require.Len(t, e.Value.(*site).tokens, maxTokens)
		require.LessOrEqual(t, cap(e.Value.(*site).tokens), 2*maxTokens)
	}
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	require.Less(t, grown, int64(4<<20))
	t.Logf("full jar: %d KiB", grown>>10)
	runtime.KeepAlive(&j)
}

func TestJarForgetsTheOriginNotUsedForLongest(t *testing.T) {
	var j jar
	put(&j, "used", "contact", "f", 1, 1, 0)
	put(&j, "not used", "contact", "f", 1, 1, 0)
	for o := range maxOrigins - 2 {
		put(&j, fmt.Sprint(o), "contact", "f", 1, 1, 0)
	}
	require.NotEmpty(t, shows(&j, "used", 0))
	put(&j, "one more", "contact", "f", 1, 1, 0)
	require.NotEmpty(t, shows(&j, "used", 0))
	require.Empty(t, shows(&j, "not used", 0))
}

func TestOrigin(t *testing.T) {
	of := func(url, host string) string {
		req := request(t, http.MethodGet, url, nil)
		if host != "" {
			req.Host = host
		}
		return originOf(req)
	}
	base := of("https://example.com/a", "")
	for name, same := range map[string]string{
		"path":         of("https://example.com/b?c", ""),
		"case":         of("HTTPS://EXAMPLE.com", ""),
		"default port": of("https://example.com:443", ""),
		"empty port":   of("https://example.com:", ""),
		"user":         of("https://u:p@example.com", ""),
		"equal Host":   of("https://example.com", "Example.com:443"),
	} {
		require.Equal(t, base, same, name)
	}
	seen := map[string]string{base: "base"}
	for name, other := range map[string]string{
		"scheme":                    of("http://example.com", ""),
		"scheme with the port":      of("http://example.com:443", ""),
		"port":                      of("https://example.com:8443", ""),
		"subdomain":                 of("https://www.example.com", ""),
		"trailing dot":              of("https://example.com.", ""),
		"other Host":                of("https://example.com", "example.org"),
		"Host at another port":      of("https://example.com", "example.com:8443"),
		"address":                   of("https://[::1]", ""),
		"address with another port": of("https://[::1]:1", ""),
	} {
		require.NotEmpty(t, other, name)
		require.NotContains(t, seen, other, name)
		seen[other] = name
	}
	require.Empty(t, of("https://"+strings.Repeat("a", 300), "a"))
	require.Empty(t, of("https://a", strings.Repeat("a", 300)))
	require.Empty(t, originOf(&http.Request{}))
	require.Empty(t, of("mailto:somebody", ""))
}

// What waits for its next request is bounded, whatever servers answer.
func TestProofsThatWaitAreBounded(t *testing.T) {
	var j jar
	now := time.Now()
	for i := range uint64(2 * maxPaid) {
		j.putBack("origin", paid{proof: "p", route: i, expires: now.Add(time.Minute)})
	}
	for i := range uint64(2 * maxPaid) {
		require.Equal(t, i >= maxPaid, j.take("origin", i, now).proof != "", "the last are kept")
		require.Empty(t, j.take("origin", i, now).proof)
	}
}

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

func TestRemaining(t *testing.T) {
	for want, line := range map[int]string{unknown: `"a";t=5`, 0: `"a";r=0`, 3: `"a";r=9, "b";r=3, "c";r=7`} {
		require.Equal(t, want, remaining(http.Header{"Ratelimit": {line}}), "the smallest of %s", line)
	}
}
