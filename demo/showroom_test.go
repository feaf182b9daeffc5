// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"html"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// The showroom, as a browser without scripts and as its script use it. What it looks like is in
// proof/browser.

var (
	countLine = regexp.MustCompile(`<p class="count">(.*)</p>`)
	tags      = regexp.MustCompile(`<[^>]*>`)
	payloads  = regexp.MustCompile(`<dt>Payload</dt><dd><code>(.*)</code>`)
)

// visitor is a client with cookies that has opened the page.
func (s *server) visitor(t *testing.T) *client {
	t.Helper()
	c := s.client(t).withJar()
	require.Equal(t, http.StatusOK, c.do("GET", "/", "", likeBrowser).StatusCode)
	return c
}

// message sends the showroom's form as its script does.
func (c *client) message(header ...string) answer {
	c.t.Helper()
	return c.do("POST", "/showroom", goodContact, append(header, urlencoded)...)
}

// press sends what a button sends where there is no script, and returns the page that comes of it.
func (c *client) press(path, body string) answer {
	c.t.Helper()
	a := c.do("POST", path, body, likeForm...)
	if a.StatusCode == http.StatusSeeOther {
		require.Equal(c.t, "/#stage", a.Header.Get("Location"))
		return c.do("GET", "/", "", likeBrowser)
	}
	return a
}

// counts returns what the rows of a page or a stage say.
func (a answer) counts(t *testing.T) (rows []string) {
	t.Helper()
	for _, line := range countLine.FindAllStringSubmatch(a.body, -1) {
		rows = append(rows, html.UnescapeString(tags.ReplaceAllString(line[1], "")))
	}
	require.Len(t, rows, 3, a.body)
	return rows
}

// payload returns the decoded token of a page, with what is marked in parentheses; "" if there is none.
func (a answer) payload() string {
	found := payloads.FindStringSubmatch(a.body)
	if found == nil {
		return ""
	}
	return html.UnescapeString(strings.NewReplacer("<mark>", "(", "</mark>", ")").Replace(found[1]))
}

func (c *client) stage() answer {
	c.t.Helper()
	return c.do("GET", "/showroom/stage", "")
}

func TestShowroomShowsTheBounds(t *testing.T) {
	for name, twenty := range map[string]func(c *client){
		"by its script": func(c *client) {
			for range times {
				c.message()
			}
		},
		"without a script": func(c *client) { c.press("/showroom/twenty", goodContact) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, 3).visitor(t)
			require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "0 admitted, at most 15 = 3 · L; 0 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, c.stage().counts(t))
			twenty(c)
			require.Equal(t, []string{"5 admitted, at most 5 = L; 15 refused", "0 admitted, at most 15 = 3 · L; 0 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, c.stage().counts(t))
			require.Contains(t, c.stage().payload(), ",(5),0]}")

			a := c.press("/showroom/round", "token=thrown")
			require.Contains(t, a.body, "Thrown away.")
			require.Contains(t, a.body, `role="status">The token is gone.`)
			require.Empty(t, a.payload())
			twenty(c)
			require.Equal(t, []string{"5 admitted, at most 5 = L; 15 refused", "15 admitted, at most 15 = 3 · L; 5 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, c.stage().counts(t))

			c.press("/showroom/round", "token=kept")
			require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "15 admitted, at most 15 = 3 · L; 5 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, c.stage().counts(t))
			twenty(c)
			require.Equal(t, "5 admitted, at most 5 = L; 15 refused", c.stage().counts(t)[0])
			c.press("/showroom/round", "token=again")
			require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "0 admitted, at most 15 = 3 · L; 0 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, c.stage().counts(t))
		})
	}
}

// A token that is thrown away is not in the answer either, whatever it was: the browser has none.
func TestThrownTokensAreGone(t *testing.T) {
	s := start(t, 3)
	c := s.visitor(t)
	require.NotEmpty(t, c.message().Header.Get(middleware.TokenHeader))
	gone := c.do("POST", "/showroom/round", "token=thrown", urlencoded)
	require.Equal(t, http.StatusNoContent, gone.StatusCode)
	require.Regexp(t, `tallystick-showroom\.for\.[0-7]=; Path=/; Max-Age=0`, strings.Join(gone.Header["Set-Cookie"], "\n"))
	for i := range 17 {
		a := c.message(middleware.TokenHeader + ": " + c.last)
		require.Equal(t, i < 15, a.StatusCode == http.StatusOK, "request %d", i+1)
		require.Empty(t, a.Header.Get(middleware.TokenHeader))
		require.Empty(t, a.Header["Set-Cookie"])
	}
	page := c.press("/showroom", goodContact)
	require.Equal(t, http.StatusTooManyRequests, page.StatusCode)
	require.Empty(t, page.Header["Set-Cookie"])
}

func TestShowroomSaysWhatHappened(t *testing.T) {
	c := start(t, 3).visitor(t)
	a := c.press("/showroom", goodContact)
	require.Regexp(t, `role="status">Admitted by instance \d. 4 left.</p>`, a.body)
	require.Contains(t, a.body, `<p class="count"><strong>1</strong> admitted`)
	require.Equal(t, 1, strings.Count(a.body, " lit in"))
	require.Contains(t, a.payload(), ",(1),0]}")

	a = c.press("/showroom", "name=Ada&email=nonsense&message=Hello")
	require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode)
	require.Contains(t, a.body, `id="email-problem">This is not an e-mail address.</p>`)
	require.Contains(t, a.body, `value="nonsense"`)
	require.Equal(t, "2 admitted, at most 5 = L; 0 refused", a.counts(t)[0], "it was counted")

	require.Equal(t, 3, admitted(t, 3, func() answer { return c.message() }))
	a = c.press("/showroom", goodContact)
	require.Equal(t, http.StatusTooManyRequests, a.StatusCode)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Contains(t, a.body, "<title>Refused</title>")
	require.Regexp(t, `role="status">Refused by instance \d. The next passes in \d+ minutes, or after some work.</p>`, a.body)
	require.Equal(t, "5 admitted, at most 5 = L; 1 refused", a.counts(t)[0])
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))

	a = c.message()
	require.Equal(t, http.StatusTooManyRequests, a.StatusCode)
	require.Equal(t, []string{"showroom"}, a.details(t).Violated, "scripts get problem details")
}

func TestShowroomSellsATally(t *testing.T) {
	c := start(t, 3).visitor(t)
	require.Equal(t, 5, admitted(t, 5, func() answer { return c.message() }))
	proof := c.message().prove(t)
	for range 2 { // a purchase whose answer was lost is made again, and is one
		require.Equal(t, http.StatusOK, c.do("POST", "/tally/showroom/redeem", "", proof).StatusCode)
	}
	a := c.stage()
	require.Equal(t, []string{"5 admitted, at most 5 = L; 1 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, []string{a.counts(t)[0], a.counts(t)[2]})
	require.Regexp(t, `"fam":\("[^"]+"\)`, a.payload())
	require.Equal(t, http.StatusOK, c.message().StatusCode)
	require.Contains(t, c.stage().body, `<li class="in own`)
	require.Regexp(t, `"t":\[\d+,\d+,\(1\),0\]}$`, c.stage().payload())

	c.press("/showroom/round", "token=again")
	require.Equal(t, 5, admitted(t, 9, func() answer { return c.message() }), "what was bought is of the round before")
}

func TestAnotherHourIsAnotherCount(t *testing.T) {
	s := start(t, 3)
	c := s.visitor(t)
	require.Equal(t, 5, admitted(t, 8, func() answer { return c.message() }))
	s.seconds.Add(2 * 3600)
	require.Equal(t, http.StatusOK, c.message().StatusCode)
	require.Equal(t, "1 admitted, at most 5 = L; 0 refused", c.stage().counts(t)[0])
}

func TestVisitorsSeeTheirOwn(t *testing.T) {
	s := start(t, 3)
	one, other := s.visitor(t), s.visitor(t)
	require.Equal(t, 5, admitted(t, 20, func() answer { return one.message() }))
	require.Equal(t, 2, admitted(t, 2, func() answer { return other.message() }), "and are clients of their own, behind one address")
	require.Equal(t, "5 admitted, at most 5 = L; 15 refused", one.stage().counts(t)[0])
	require.Equal(t, "2 admitted, at most 5 = L; 0 refused", other.stage().counts(t)[0])
	nobody := s.client(t)
	require.Equal(t, "0 admitted, at most 5 = L; 0 refused", nobody.stage().counts(t)[0])
	require.NotContains(t, one.do("GET", "/", "").body, "127.0.0.1", "no address")
}

// Rounds that are made up are bounded by the limit of the address; without any, the address is the
// client.
func TestMadeUpRoundsAreLimited(t *testing.T) {
	s := start(t, 1)
	c := s.client(t)
	require.Equal(t, 5, admitted(t, 9, func() answer { return c.message() }), "without a cookie")
	passed := 0
	for i := range 700 {
		round := newRound()
		round.turn = i
		if c.message("Cookie: "+round.cookie().String()).StatusCode == http.StatusOK {
			passed++
		}
	}
	require.Equal(t, 600-5, passed, "what the form refuses is not charged outside")
	for _, bad := range []string{"x", strings.Repeat("a", 22) + ".1.lost", strings.Repeat("a", 22) + ".1234567.kept", strings.Repeat("a", 23) + ".1.kept"} {
		r := &http.Request{Header: http.Header{"Cookie": {roundCookie + "=" + bad}}}
		require.Equal(t, round{}, roundOf(r), bad)
	}
}

func TestForeignSitesBeginNoRound(t *testing.T) {
	c := start(t, 1).visitor(t)
	c.message()
	for _, path := range []string{"/showroom", "/showroom/twenty", "/showroom/round"} {
		require.Equal(t, http.StatusForbidden, c.do("POST", path, "token=again", urlencoded, "Sec-Fetch-Site: cross-site").StatusCode, path)
	}
	require.Equal(t, "1 admitted, at most 5 = L; 0 refused", c.stage().counts(t)[0])
}

func TestVisitsAreBounded(t *testing.T) {
	vs := newVisits(3)
	var all []round
	for range 10 {
		r := newRound()
		all = append(all, r)
		vs.of(r)
		_, there := vs.seen(all[0])
		require.True(t, there, "the one that is used stays")
		vs.of(all[0])
	}
	require.Len(t, vs.all, 3)
	v := vs.of(all[0])
	for range 3 * maxMarks {
		v.add(&step{round: all[0], decided: true}, "", fixedNow())
	}
	require.Len(t, v.lanes[kept].marks, maxMarks)
}

func TestTokenView(t *testing.T) {
	token := func(payload string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2lnbmF0dXJl"
	}
	marked := func(v tokenView) (all string) {
		for _, p := range v.Payload {
			if p.Marked {
				all += "(" + p.Text + ")"
			} else {
				all += p.Text
			}
		}
		return all
	}
	before := viewToken(token(`{"aud":"a","sub":"x","exp":9,"t":[5,-1,3,0]}`), tokenView{})
	require.Equal(t, `{"aud":"a","sub":"x","exp":9,"t":[5,-1,(3),0]}`, marked(before))
	require.Equal(t, 12, before.Signature)
	for payload, want := range map[string]string{
		`{"aud":"a","sub":"x","exp":9,"t":[5,-1,4,0]}`:          `{"aud":"a","sub":"x","exp":9,"t":[5,-1,(4),0]}`,
		`{"aud":"a","sub":"x","exp":10,"t":[5,-1,1,3]}`:         `{"aud":"a","sub":"x","exp":(10),"t":[5,-1,(1),(3)]}`,
		`{"aud":"a","sub":"x","exp":9,"t":[5,-1,3,0]}`:          `{"aud":"a","sub":"x","exp":9,"t":[5,-1,3,0]}`,
		`{"aud":"a","fam":"f","exp":9,"t":[]}`:                  `{"aud":"a","fam":("f"),"exp":9,"t":[]}`,
		`{"aud":"a","sub":"x","fam":"f","exp":9,"t":[5,0,1,0]}`: `{"aud":"a","sub":"x","fam":"f","exp":9,"t":[5,0,(1),0]}`,
	} {
		require.Equal(t, want, marked(viewToken(token(payload), before)), payload)
	}
	bought := viewToken(token(`{"aud":"a","fam":"f","exp":9,"t":[]}`), before)
	require.Equal(t, `{"aud":"a","fam":"f","exp":9,"t":[5,0,(1),0]}`, marked(viewToken(token(`{"aud":"a","fam":"f","exp":9,"t":[5,0,1,0]}`), bought)), "what has grown is no change of what stood at its place")
	for _, bad := range []string{"", "..", "a.b.c", token("{"), token("[]")[1:], token(`{}`) + ".x", strings.Repeat("a", 600), token(`"` + strings.Repeat("a", 600) + `"`)} {
		require.Empty(t, viewToken(bad, before).Header, bad)
	}
	s := newShowroom(3, fixedNow)
	evil := s.stageOf(newRound(), token(`{"aud":"<script>alert(1)</script>","t":[1,2,3,4]}`))
	var page strings.Builder
	require.NoError(t, templates["showroom"].ExecuteTemplate(&page, "stage", evil))
	require.Contains(t, page.String(), "&lt;script&gt;")
	require.NotContains(t, page.String(), "<script>")
}

// The signature is what makes a token worth something. It is in the cookie and in the field, and
// nowhere in a page.
func TestNoPageHasASignature(t *testing.T) {
	c := start(t, 3).visitor(t)
	a := c.press("/showroom", goodContact)
	require.Equal(t, http.StatusOK, a.StatusCode)
	cookie := ""
	for _, k := range c.http.Jar.Cookies(a.Request.URL) {
		if ofShowroom(k.Name) {
			cookie = k.Value
		}
	}
	parts := strings.Split(cookie, ".")
	require.Len(t, parts, 3)
	require.NotContains(t, a.body, parts[2])
	require.NotContains(t, c.stage().body, parts[2])
}

func TestTheSevenLinesAreTheReadmes(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	indented := "\t" + strings.ReplaceAll(firstLines, "\n", "\n\t")
	require.Contains(t, string(readme), indented)
	require.True(t, strings.HasPrefix(firstLines, "limit, err := middleware.New("))
	require.True(t, strings.HasSuffix(firstLines, `http.Handle("POST /contact", limit.Handler(http.HandlerFunc(contact)))`))
	lines := 0
	for line := range strings.Lines(firstLines) {
		if strings.ContainsFunc(line, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
			lines++
		}
	}
	require.Equal(t, 7, lines, "braces apart")
	page := start(t, 1).client(t).do("GET", "/", "").body
	require.Contains(t, html.UnescapeString(page), "<pre tabindex=\"0\" aria-labelledby=\"lines\"><code>"+firstLines+"</code></pre>")
}

func TestTwentyEndsWithItsVisitor(t *testing.T) {
	c := start(t, 1).visitor(t)
	a := c.do("POST", "/showroom/twenty", strings.Repeat("x", maxBody+1), likeForm...)
	require.Equal(t, http.StatusRequestEntityTooLarge, a.StatusCode)
	require.Equal(t, "0 admitted, at most 5 = L; 0 refused", c.stage().counts(t)[0])
}
