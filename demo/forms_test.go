// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// How the forms answer, in each way of sending and asking.

const (
	jsonContent = "Content-Type: application/json"
	// What Chromium and Firefox send, in essence.
	likeBrowser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

func TestFormIsAcceptedInEveryEncoding(t *testing.T) {
	var parts bytes.Buffer
	w := multipart.NewWriter(&parts)
	require.NoError(t, w.WriteField("email", "ada@example.org"))
	require.NoError(t, w.Close())

	c := start(t, 1).client(t)
	for name, a := range map[string]answer{
		"urlencoded": c.newsletter(),
		"multipart":  c.do("POST", "/newsletter", parts.String(), "Content-Type: "+w.FormDataContentType()),
		"json":       c.do("POST", "/newsletter", `{"email":"ada@example.org"}`, jsonContent+"; charset=utf-8"),
		"more":       c.do("POST", "/newsletter", `{"email":" ada@example.org ","more":[1]}`, jsonContent),
	} {
		require.Equal(t, http.StatusOK, a.StatusCode, "%s: %s", name, a.body)
		require.Equal(t, "application/json", a.Header.Get("Content-Type"), name)
		require.JSONEq(t, `{"accepted":true}`, a.body, name)
		require.NotEmpty(t, a.Header.Get(middleware.TokenHeader), name)
		require.Equal(t, "no-store", a.Header.Get("Cache-Control"), name)
	}
}

func TestBrowserIsRedirectedToAPage(t *testing.T) {
	c := start(t, 1).client(t).withJar()
	a := c.contact(likeBrowser)
	require.Equal(t, http.StatusSeeOther, a.StatusCode)
	require.NotEmpty(t, a.Header.Get(middleware.TokenHeader))
	require.Len(t, a.Cookies(), 1)
	cookie := a.Cookies()[0]
	require.Equal(t, "tallystick-contact", cookie.Name)
	require.True(t, cookie.HttpOnly)
	require.False(t, cookie.Secure, "over plain HTTP it would not be kept")

	thanks := c.do("GET", a.Header.Get("Location"), "", likeBrowser)
	require.Equal(t, http.StatusOK, thanks.StatusCode)
	require.Contains(t, thanks.body, "<h1>Accepted</h1>")
}

func TestWhatTheClientPrefers(t *testing.T) {
	for accept, html := range map[string]bool{
		likeBrowser:                                      true,
		"Accept: text/html":                              true,
		"Accept: TEXT/HTML":                              true,
		"Accept: application/json":                       false,
		"Accept: application/json, text/html;q=0.9":      false,
		"Accept: application/json;q=0.5, text/html":      true,
		"Accept: application/problem+json, */*":          false,
		"Accept: text/html;q=0":                          false,
		"Accept: */*":                                    false,
		"Accept: text/html;q=nonsense, application/json": false,
	} {
		name, value, _ := strings.Cut(accept, ": ")
		r := &http.Request{Header: http.Header{name: {value}}}
		require.Equal(t, html, wantsHTML(r), accept)
		r.Header.Set("Content-Type", "application/json")
		require.False(t, wantsHTML(r), "who sends JSON gets JSON: %s", accept)
	}
	require.False(t, wantsHTML(&http.Request{}), "nothing said")
}

func TestBadInputNamesTheFields(t *testing.T) {
	long := strings.Repeat("é", 101)
	tests := []struct {
		path, body, content string
		fields              []string
	}{
		{"/contact", "", urlencoded, []string{"email", "message", "name"}},
		{"/contact", "", "X-Nothing: no type at all", []string{"email", "message", "name"}},
		{"/contact", "name=+&email=a@b.example&message=x", urlencoded, []string{"name"}},
		{"/contact", "name=" + long + "&email=a@b.example&message=x", urlencoded, []string{"name"}},
		{"/contact", `{"name":"Ada","email":["a"],"message":"x"}`, jsonContent, []string{"email"}},
		{"/newsletter", "email=nonsense", urlencoded, []string{"email"}},
		{"/newsletter", `{}`, jsonContent, []string{"email"}},
		{"/newsletter", `null`, jsonContent, []string{"email"}},
		{"/signup", "", urlencoded, []string{"email", "name", "password"}},
		{"/signup", "name=Ada&email=a@b.example&password=7seven7", urlencoded, []string{"password"}},
		{"/signup", `{"name":"Ada","email":"a@b.example","password":12345678}`, jsonContent, []string{"password"}},
		{"/feedback", "email=a@b.example&message=+", urlencoded, []string{"message"}},
	}
	s := start(t, 1)
	for _, test := range tests {
		c := s.client(t)
		a := c.pay(c.do("POST", test.path, test.body, test.content))
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, "%+v: %s", test, a.body)
		problems := a.details(t).Errors
		require.Len(t, problems, len(test.fields), "%+v", test)
		for _, field := range test.fields {
			require.NotEmpty(t, problems[field], "%+v", test)
		}
	}
}

func TestBadInputInABrowserKeepsWhatWasTyped(t *testing.T) {
	c := start(t, 1).client(t)
	a := c.do("POST", "/contact", `name="><script>&email=nonsense&message=Hello`, urlencoded, likeBrowser)
	require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", a.Header.Get("Content-Type"))
	require.Contains(t, a.body, `value="&#34;&gt;&lt;script&gt;"`)
	require.Contains(t, a.body, `value="nonsense"`)
	require.Contains(t, a.body, ">\nHello</textarea>")
	require.Contains(t, a.body, `id="contact-email-problem">This is not an e-mail address.</p>`)
	require.Equal(t, 1, strings.Count(a.body, "aria-invalid"))
	require.NotContains(t, a.body, "<script>")
}

func TestPasswordIsNeverShownAgain(t *testing.T) {
	c := start(t, 1).client(t)
	for body, content := range map[string]string{
		"name=&email=ada@example.org&password=hush-hush-hush":               urlencoded,
		"name=Ada&email=ada@example.org&password=hush":                      urlencoded,
		`{"name":"","email":"ada@example.org","password":"hush-hush-hush"}`: jsonContent,
	} {
		a := c.pay(c.do("POST", "/signup", body, content, likeBrowser))
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, a.body)
		if content == urlencoded {
			require.Contains(t, a.body, `value="ada@example.org"`)
		}
		require.NotContains(t, a.body, "hush")
	}
}

func TestPasswordKeepsItsSpaces(t *testing.T) {
	c := start(t, 1).client(t)
	a := c.pay(c.do("POST", "/signup", "name=Ada&email=ada@example.org&password=+seven++", urlencoded))
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
}

func TestRefusedBodies(t *testing.T) {
	c := start(t, 1).client(t)
	for name, test := range map[string]struct {
		body, content string
		status        int
	}{
		"too large":         {"email=" + strings.Repeat("a", maxBody), urlencoded, http.StatusRequestEntityTooLarge},
		"too large as JSON": {`{"email":"` + strings.Repeat("a", maxBody), jsonContent, http.StatusRequestEntityTooLarge},
		"no JSON":           {`{"email":`, jsonContent, http.StatusBadRequest},
		"two values":        {`{"email":"a@b.example"}{}`, jsonContent, http.StatusBadRequest},
		"an array":          {`[]`, jsonContent, http.StatusBadRequest},
		"no boundary":       {"x", "Content-Type: multipart/form-data", http.StatusBadRequest},
		"bad escape":        {"email=%zz", urlencoded, http.StatusBadRequest},
		"another type":      {"a,b", "Content-Type: text/csv", http.StatusUnsupportedMediaType},
		"a type that isn't": {"a,b", "Content-Type: ;;", http.StatusUnsupportedMediaType},
	} {
		a := c.do("POST", "/newsletter", test.body, test.content)
		require.Equal(t, test.status, a.StatusCode, "%s: %s", name, a.body)
		require.NotEmpty(t, a.details(t).Detail, name)
		require.NotEmpty(t, a.Header.Get(middleware.TokenHeader), "%s is charged too", name)
	}
}

func TestPages(t *testing.T) {
	c := start(t, 1).client(t)
	const policy = "default-src 'self'"
	home := c.do("GET", "/forms", "", likeBrowser)
	require.Equal(t, http.StatusOK, home.StatusCode)
	for _, want := range []string{
		`<html lang="en">`, `name="viewport"`, `href="/style.css"`,
		`action="/contact"`, `name="name"`, `name="email"`, `name="message"`, `action="/newsletter"`,
		`action="/signup"`, `action="/feedback"`, `name="password"`, `autocomplete="new-password"`, `minlength="8"`,
		`autocomplete="name"`, `autocomplete="email"`, `<label for="contact-message">`,
	} {
		require.Contains(t, home.body, want)
	}
	for _, inline := range []string{"<script>", "<style", " style=", " onclick=", "javascript:"} {
		require.NotContains(t, home.body, inline)
	}
	require.Empty(t, home.Header.Get("RateLimit"), "reading is free")

	for path, contentType := range map[string]string{
		"/":           "text/html; charset=utf-8",
		"/home.js":    "text/javascript; charset=utf-8",
		"/home.css":   "text/css; charset=utf-8",
		"/forms":      "text/html; charset=utf-8",
		"/accepted":   "text/html; charset=utf-8",
		"/style.css":  "text/css; charset=utf-8",
		"/tallies.js": "text/javascript; charset=utf-8",
		"/icon.svg":   "image/svg+xml",
		"/healthz":    "text/plain; charset=utf-8",
	} {
		a := c.do("GET", path, "")
		require.Equal(t, http.StatusOK, a.StatusCode, path)
		require.Equal(t, contentType, a.Header.Get("Content-Type"), path)
		require.Equal(t, policy, a.Header.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"), path)
	}
	require.Equal(t, http.StatusNotFound, c.do("GET", "/web/", "").StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, c.do("GET", "/contact", "").StatusCode)
	require.Equal(t, policy, c.contact().Header.Get("Content-Security-Policy"))
}
