// SPDX-License-Identifier: Apache-2.0

package middlewaretest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/tallystick/tallystick/middleware"
)

// most is how many requests Spend sends before it gives up: some seconds.
const most = 1 << 20

// Spend uses up the quota of the client that sends r, and returns the refusal: the first 429.
// From then on the instance behind h refuses whatever the client sends, until time passes, or
// the client buys a tally where they are sold. Other instances do not know of it: the tokens
// of the refused client would tell them.
//
// It sends r to h until it is refused, and shows the tokens that come back. h is the program
// as a whole or, so that nothing happens but that requests are counted, the limiter around
// a handler that does nothing:
//
//	refusal := middlewaretest.Spend(t, limit.Handler(http.NotFoundHandler()), r)
//
// Make r by [httptest.NewRequest], and set its RemoteAddr or credentials: they identify the
// client. If r has a token of a bought tally, Spend uses up that tally, and in
// WhenExhausted the quota of the address too. r can be sent again. The test fails on any
// other refusal, which no number of requests would cause: 401, 403 and 503.
func Spend(t testing.TB, h http.Handler, r *http.Request) *http.Response {
	t.Helper()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			t.Fatalf("middlewaretest: %v", err)
		}
	}
	shown := r.Header.Clone()
	defer func() { r.Body = io.NopCloser(bytes.NewReader(body)) }()
	for range most {
		again := r.Clone(r.Context())
		again.Header, again.Body = shown.Clone(), io.NopCloser(bytes.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, again)
		resp := w.Result()
		switch resp.StatusCode {
		case http.StatusTooManyRequests:
			return resp
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
			t.Fatalf("middlewaretest: Spend: %s %s is answered %s: %s", r.Method, r.URL, resp.Status, w.Body)
		}
		shown = echo(shown, resp)
	}
	t.Fatalf("middlewaretest: Spend: %s %s is not refused after %d requests", r.Method, r.URL, most)
	return nil
}

// echo returns the fields of the request after the one that was answered by resp.
func echo(shown http.Header, resp *http.Response) http.Header {
	if tokens := resp.Header[middleware.TokenHeader]; tokens != nil {
		shown[middleware.TokenHeader] = tokens
	}
	kept := (&http.Request{Header: shown}).Cookies()
	for _, cookie := range resp.Cookies() {
		kept = slices.DeleteFunc(kept, func(old *http.Cookie) bool { return old.Name == cookie.Name })
		if cookie.MaxAge >= 0 && cookie.Value != "" {
			kept = append(kept, cookie)
		}
	}
	delete(shown, "Cookie")
	with := &http.Request{Header: shown}
	for _, cookie := range kept {
		with.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	return shown
}
