// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// times is how many requests the second button sends.
const times = 20

// twenty sends the form twenty times, one after the other, as the page's script does: it is
// for browsers that run none. The requests go by the balancer and show the newest token.
func (s *showroom) twenty(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeProblem(w, r, &problem{Status: http.StatusRequestEntityTooLarge, Detail: "Send at most 64 KiB."})
		return
	}
	cookies := r.Cookies()
	for range times {
		if r.Context().Err() != nil {
			return // nobody is there to see it
		}
		again := r.Clone(r.Context())
		again.URL.Path, again.RequestURI = showroomPath, showroomPath
		again.Header.Set("Accept", "application/json")
		setCookies(again, cookies)
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer := &discarded{header: http.Header{}}
		s.front.ServeHTTP(answer, again)
		for _, fresh := range (&http.Response{Header: answer.header}).Cookies() {
			cookies = slices.DeleteFunc(cookies, func(c *http.Cookie) bool { return c.Name == fresh.Name })
			cookies = append(cookies, fresh)
			w.Header().Set("Set-Cookie", fresh.String()) // the newest is all that a browser would have
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/#stage", http.StatusSeeOther)
}

// discarded is a response whose body nobody reads.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header               { return d.header }
func (d *discarded) WriteHeader(int)                   {}
func (d *discarded) Write(p []byte) (int, error)       { return len(p), nil }
func (d *discarded) WriteString(s string) (int, error) { return len(s), nil }

// setCookies replaces the cookies of a request.
func setCookies(r *http.Request, cookies []*http.Cookie) {
	r.Header.Del("Cookie")
	for _, c := range cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
}
