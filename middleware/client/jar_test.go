// SPDX-License-Identifier: Apache-2.0

package client

import (
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
