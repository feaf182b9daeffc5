// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What becomes of a field of the request that a handler is given: a copy, as by WithContext.
type copyFate string

const (
	isSeen copyFate = "what a handler changes is seen outside, as without a limiter"
	isOwn  copyFate = "what a handler assigns is its own, and not seen outside"
)

// copied are all fields of http.Request. What is in them before the limiter is in them behind it.
// write does what a handler, or net/http for it, may do; look is what stands outside then sees.
var copied = map[string]struct {
	copyFate
	write func(*http.Request)
	look  func(*http.Request) any
}{
	"Method":           {isOwn, func(r *http.Request) { r.Method = "PATCH" }, func(r *http.Request) any { return r.Method }},
	"URL":              {isOwn, func(r *http.Request) { r.URL = &url.URL{Path: "/other"} }, func(r *http.Request) any { return r.URL.Path }},
	"URL, in place":    {isSeen, func(r *http.Request) { r.URL.Path = "/other" }, func(r *http.Request) any { return r.URL.Path }},
	"URL, StripPrefix": {isSeen, stripped, func(r *http.Request) any { return r.URL.Path }},
	"Proto":            {isOwn, func(r *http.Request) { r.Proto = "HTTP/3.0" }, func(r *http.Request) any { return r.Proto }},
	"ProtoMajor":       {isOwn, func(r *http.Request) { r.ProtoMajor = 3 }, func(r *http.Request) any { return r.ProtoMajor }},
	"ProtoMinor":       {isOwn, func(r *http.Request) { r.ProtoMinor = 3 }, func(r *http.Request) any { return r.ProtoMinor }},
	"Header":           {isOwn, func(r *http.Request) { r.Header = http.Header{} }, func(r *http.Request) any { return len(r.Header) }},
	"Header, a field":  {isSeen, func(r *http.Request) { r.Header.Set("X-Custom", "1") }, func(r *http.Request) any { return r.Header.Get("X-Custom") }},
	"Body":             {isOwn, func(r *http.Request) { r.Body = http.NoBody }, func(r *http.Request) any { return r.Body == http.NoBody }},
	"Body, read":       {isSeen, func(r *http.Request) { _, _ = r.Body.Read(make([]byte, 1)) }, rest},
	"GetBody":          {isOwn, func(r *http.Request) { r.GetBody = nil }, func(r *http.Request) any { return r.GetBody == nil }},
	"ContentLength":    {isOwn, func(r *http.Request) { r.ContentLength = 7 }, func(r *http.Request) any { return r.ContentLength }},
	"TransferEncoding": {isOwn, func(r *http.Request) { r.TransferEncoding = nil }, func(r *http.Request) any { return r.TransferEncoding }},
	"Close":            {isOwn, func(r *http.Request) { r.Close = false }, func(r *http.Request) any { return r.Close }},
	"Host":             {isOwn, func(r *http.Request) { r.Host = "other" }, func(r *http.Request) any { return r.Host }},
	// To look whether a form was parsed would be a data race with a handler that has left
	// something behind which does it.
	"Form":                {isOwn, func(r *http.Request) { _ = r.ParseForm() }, func(r *http.Request) any { return r.Form == nil }},
	"Form, multipart":     {isSeen, parseMultipart, func(r *http.Request) any { return r.Form["a"] }},
	"PostForm":            {isOwn, func(r *http.Request) { _ = r.ParseForm() }, func(r *http.Request) any { return r.PostForm == nil }},
	"PostForm, multipart": {isSeen, parseMultipart, func(r *http.Request) any { return r.PostForm["a"] }},
	"MultipartForm":       {isSeen, parseMultipart, func(r *http.Request) any { return r.MultipartForm.Value["a"] }},
	"MultipartForm, read part by part": {isSeen, func(r *http.Request) { sendsForm(r); _, _ = r.MultipartReader() },
		func(r *http.Request) any { return r.MultipartForm != nil }},
	"Trailer":          {isOwn, func(r *http.Request) { r.Trailer = nil }, func(r *http.Request) any { return len(r.Trailer) }},
	"Trailer, a field": {isSeen, func(r *http.Request) { r.Trailer.Set("X-Sum", "1") }, func(r *http.Request) any { return r.Trailer.Get("X-Sum") }},
	"RemoteAddr":       {isOwn, func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, func(r *http.Request) any { return r.RemoteAddr }},
	"RequestURI":       {isOwn, func(r *http.Request) { r.RequestURI = "/other" }, func(r *http.Request) any { return r.RequestURI }},
	"TLS":              {isOwn, func(r *http.Request) { r.TLS = nil }, func(r *http.Request) any { return r.TLS == nil }},
	//lint:ignore SA1019 a field like others
	"Cancel":   {isOwn, func(r *http.Request) { r.Cancel = nil }, func(r *http.Request) any { return r.Cancel == nil }},
	"Response": {isOwn, func(r *http.Request) { r.Response = nil }, func(r *http.Request) any { return r.Response == nil }},
	"Pattern":  {isSeen, muxInside, func(r *http.Request) any { return r.Pattern }},
	"ctx":      {isOwn, func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), copyFate(""), 1)) }, func(r *http.Request) any { return r.Context().Value(copyFate("")) }},
	// Only all fields at once could be handed back with these, and whatever watches the request
	// from outside while it is served may read one.
	"pat":                         {isOwn, muxInside, func(r *http.Request) any { return r.PathValue("inside") }},
	"matches":                     {isOwn, muxInside, func(r *http.Request) any { return r.PathValue("inside") }},
	"matches, set":                {isSeen, func(r *http.Request) { r.SetPathValue("outside", "other") }, func(r *http.Request) any { return r.PathValue("outside") }},
	"otherValues":                 {isOwn, func(r *http.Request) { r.SetPathValue("new", "1") }, func(r *http.Request) any { return r.PathValue("new") }},
	"otherValues, where some are": {isSeen, func(r *http.Request) { r.SetPathValue("other", "2") }, func(r *http.Request) any { return r.PathValue("other") }},
}

func stripped(r *http.Request) {
	http.StripPrefix("/a", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/b" {
			panic("the prefix is there")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}

func muxInside(r *http.Request) {
	mux := http.NewServeMux()
	mux.HandleFunc("/a/{inside}", func(_ http.ResponseWriter, r *http.Request) {
		if r.PathValue("inside") != "b" {
			panic("no such value inside")
		}
	})
	mux.ServeHTTP(httptest.NewRecorder(), r)
}

func rest(r *http.Request) any {
	b, err := io.ReadAll(r.Body)
	return fmt.Sprint(string(b), err)
}

// sendsForm has r submit a form with a file.
func sendsForm(r *http.Request) {
	body, contentType := formWithFile(1000)
	r.Header.Set("Content-Type", contentType)
	r.Body = io.NopCloser(bytes.NewReader(body))
}

func parseMultipart(r *http.Request) {
	sendsForm(r)
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		panic(err)
	}
}

func formWithFile(size int) (body []byte, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("a", "1")
	file, _ := w.CreateFormFile("file", "file.bin")
	_, _ = file.Write(make([]byte, size))
	_ = w.Close()
	return b.Bytes(), w.FormDataContentType()
}

// fullRequest has something in every field. It is a request to "/{anything}" of a mux outside.
func fullRequest() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/a/b?q=1", strings.NewReader("body=1"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	r.TransferEncoding = []string{"chunked"}
	r.Close = true
	r.Trailer = http.Header{"X-Sum": nil}
	r.TLS = new(tls.ConnectionState)
	//lint:ignore SA1019 it has something in every field
	r.Cancel = make(chan struct{})
	r.Response = new(http.Response)
	return r
}

// TestWhatACopiedRequestLoses goes through the table, for one limiter and for two.
func TestWhatACopiedRequestLoses(t *testing.T) {
	known := map[string]bool{}
	for name, row := range copied {
		field, _, _ := strings.Cut(name, ",")
		known[field] = true
		t.Run(name, func(t *testing.T) {
			outside := func(limiters int, write func(*http.Request)) (seen any) {
				r := fullRequest()
				if name == "otherValues, where some are" {
					r.SetPathValue("other", "1")
				}
				h := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { write(r) }))
				for range limiters {
					h = newLimiter(t, open()).Handler(h)
				}
				mux := http.NewServeMux()
				mux.HandleFunc("/{outside...}", func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					seen = row.look(r)
				})
				mux.ServeHTTP(httptest.NewRecorder(), r)
				return seen
			}
			bare := outside(0, row.write)
			for limiters := 1; limiters <= 2; limiters++ {
				limited := outside(limiters, row.write)
				if row.copyFate == isSeen {
					require.Equal(t, bare, limited, row.copyFate)
					continue
				}
				require.NotEqual(t, bare, limited, row.copyFate)
				require.Equal(t, outside(0, func(*http.Request) {}), limited, row.copyFate)
			}
		})
	}
	fields := map[string]bool{}
	for field := range reflect.TypeFor[http.Request]().Fields() {
		fields[field.Name] = true
		require.True(t, known[field.Name], "net/http's Request has a field %s, which the table does not tell of: "+
			"say what becomes of it in the copy that handlers get (middleware/record.go, asking and handBack)", field.Name)
	}
	for field := range known {
		require.True(t, fields[field], "net/http's Request has no field %s any more", field)
	}
}

// TestACopiedRequestIsWhole: nothing that was there before the limiter is missing behind it.
func TestACopiedRequestIsWhole(t *testing.T) {
	r := fullRequest()
	r.Form, r.PostForm, r.MultipartForm, r.Pattern = url.Values{"a": {"1"}}, url.Values{"a": {"1"}}, new(multipart.Form), "/a/"
	r.SetPathValue("other", "1")
	var inside *http.Request
	newLimiter(t, open()).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { inside = r })).
		ServeHTTP(httptest.NewRecorder(), r)
	require.NotSame(t, r, inside)
	for field := range reflect.TypeFor[http.Request]().Fields() {
		if !field.IsExported() {
			continue // seen by PathValue and Context, above
		}
		before, behind := reflect.ValueOf(r).Elem().FieldByIndex(field.Index), reflect.ValueOf(inside).Elem().FieldByIndex(field.Index)
		require.False(t, before.IsZero(), field.Name)
		if field.Type.Kind() == reflect.Func {
			require.Equal(t, before.Pointer(), behind.Pointer(), field.Name)
			continue
		}
		require.Equal(t, before.Interface(), behind.Interface(), field.Name)
	}
	require.Equal(t, "1", inside.PathValue("other"))
}

// TestOneRequestForManyHandlers: what has not changed is not written, by programs that
// measure themselves with one request above all. The race detector looks at it.
func TestOneRequestForManyHandlers(t *testing.T) {
	h := newLimiter(t, open()).Handler(newLimiter(t, open()).Handler(new(spy)))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	group.Wait()
	require.Nil(t, r.Trailer, "an allocation for nothing")
}

// TestWhatAHandlerLeavesBehind goes on with the request, and parses its query. The race detector looks at it.
func TestWhatAHandlerLeavesBehind(t *testing.T) {
	var group sync.WaitGroup
	defer group.Wait()
	h := newLimiter(t, open()).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		group.Go(func() {
			if r.FormValue("q") != "1" {
				t.Error("no value")
			}
		})
	}))
	for range 100 {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(m, "/?q=1", nil))
		}
	}
}
