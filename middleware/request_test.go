// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
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
	kit.Together(4, func(int) {
		for range 50 {
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
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

// upload keeps nothing of a file in memory, and says how long it is.
func upload(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(0); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(r.MultipartForm.File["file"]) != 1 {
		http.Error(w, "no file", http.StatusBadRequest)
		return
	}
	if on, _ := os.ReadDir(os.TempDir()); len(on) == 0 {
		http.Error(w, "not on the disk", http.StatusBadRequest)
	}
}

// filesLeft returns the temporary files that are there after five uploads to h.
func filesLeft(t *testing.T, h http.Handler, status int, http2 bool) []os.DirEntry {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = http2
	server.StartTLS()
	for range 5 {
		body, contentType := formWithFile(100_000)
		r := kit.Must(http.NewRequest(http.MethodPost, server.URL, bytes.NewReader(body)))(t)
		r.Header = http.Header{"Content-Type": {contentType}, "Accept": {"text/html"}}
		resp := kit.Must(server.Client().Do(r))(t)
		require.Equal(t, http2, resp.ProtoMajor == 2)
		require.Equal(t, status, resp.StatusCode, bodyOf(t, resp))
	}
	server.Close()
	return kit.Must(os.ReadDir(dir))(t)
}

// TestUploadsLeaveNoFiles: a server removes the temporary files of the form of its own request,
// which is not the one that handlers have.
func TestUploadsLeaveNoFiles(t *testing.T) {
	handler := http.HandlerFunc(upload)
	limit := func(next http.Handler, changes ...change) func(*testing.T) http.Handler {
		return func(t *testing.T) http.Handler { return newLimiter(t, changed(open(), changes...)).Handler(next) }
	}
	refusing := telling(middleware.Identity{}, io.EOF)
	mux := http.NewServeMux()
	mux.Handle("POST /", handler)
	for name, test := range map[string]struct {
		make   func(*testing.T) http.Handler
		status int // 0: the connection ends
	}{
		"bare":         {func(*testing.T) http.Handler { return handler }, 200},
		"one":          {limit(handler), 200},
		"one, a mux":   {limit(mux), 200},
		"two":          {func(t *testing.T) http.Handler { return limit(limit(handler)(t))(t) }, 200},
		"with a price": {func(t *testing.T) http.Handler { return newLimiter(t, open()).HandlerCost(2, handler) }, 200},
		"by outcome":   {limit(handler, func(cfg *middleware.Config) { *cfg = login(new(clock)) }), 200},
		"in a shadow":  {limit(handler, func(cfg *middleware.Config) { cfg.Shadow = true }), 200},
		"skipped":      {limit(handler, func(cfg *middleware.Config) { cfg.Skip = func(*http.Request) bool { return true } }), 200},
		"hooked":       {limit(handler, func(cfg *middleware.Config) { record(cfg) }), 200},
		"a goroutine": {limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			done := make(chan struct{})
			go func() { defer close(done); upload(w, r) }()
			<-done
		})), 200},
		"a panic, recovered": {func(t *testing.T) http.Handler {
			return recoverer(limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { upload(w, r); panic("handler") }))(t))
		}, 500},
		"by the program's refusal": {limit(handler, refusing, func(cfg *middleware.Config) { cfg.RefusalHandler = handler }), 403},
		"by the page of a refusal": {limit(handler, refusing, func(cfg *middleware.Config) { cfg.PageHandler = handler }), 403},
		"at an endpoint": {func(t *testing.T) http.Handler {
			cfg := changed(challenging(new(clock), middleware.WhenExhausted), refusing, func(cfg *middleware.Config) { cfg.RefusalHandler = handler })
			return http.StripPrefix("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path = cfg.Challenge.Path + "redeem"
				newLimiter(t, cfg).Endpoints().ServeHTTP(w, r)
			}))
		}, 403},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", HTTP/1.1", true: ", HTTP/2"}[http2], func(t *testing.T) {
				// HTTP/2 of Go 1.27 leaves them behind a bare handler too.
				require.Len(t, filesLeft(t, test.make(t), test.status, http2), len(filesLeft(t, handler, 200, http2)), "files")
			})
		}
	}
}

// A handler that http.TimeoutHandler has left behind goes on with its own copy.
func TestUploadsBehindATimeout(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	end, ended := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		<-end
		_ = r.ParseMultipartForm(0)
	})
	for name, h := range map[string]http.Handler{
		"outside": http.TimeoutHandler(newLimiter(t, open()).Handler(slow), time.Nanosecond, ""),
		"inside":  newLimiter(t, open()).Handler(http.TimeoutHandler(slow, time.Nanosecond, "")),
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, h)
			body, contentType := formWithFile(1000)
			resp := kit.Must(server.Client().Post(server.URL, contentType, bytes.NewReader(body)))(t)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, bodyOf(t, resp))
			end <- struct{}{}
			<-ended
		})
	}
}

// TestTrailersOfRequests: what a client sends after the body reaches the handler, declared or
// not, and with it what stands outside.
func TestTrailersOfRequests(t *testing.T) {
	for name, declared := range map[string]string{"declared": "Trailer: X-Sum\r\n", "not declared": ""} {
		for limiters := range 3 {
			t.Run(name, func(t *testing.T) {
				inside, outside, before := "", "", -1
				h := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					before = len(r.Trailer)
					_, _ = io.Copy(io.Discard, r.Body)
					inside = r.Trailer.Get("X-Sum")
				}))
				for range limiters {
					h = newLimiter(t, open()).Handler(h)
				}
				server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(w, r)
					outside = r.Trailer.Get("X-Sum")
				}))
				conn := kit.Must(net.Dial("tcp", server.Listener.Addr().String()))(t)
				defer func() { require.NoError(t, conn.Close()) }()
				kit.Must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"+declared+"\r\n1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n"))(t)
				resp := kit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, boolToInt(declared != ""), before)
				require.Equal(t, "7", inside)
				require.Equal(t, "7", outside)
			})
		}
	}
}

// ofResets is set in a process that is to do TestResetsOfEarlyResponses itself: what that looks
// for, "fatal error: concurrent map iteration and map write", ends a process.
const ofResets = "TALLYSTICK_TEST_RESETS"

// TestResetsOfEarlyResponses: net/http's HTTP/2 server encodes a 1xx from the live header map, on a goroutine of its
// own, and waits for it no longer once the client has reset the stream (golang/go#67940). net/http must not find the
// map being written, by any of its writers. More threads than there are cores have the system stop one in the middle.
func TestResetsOfEarlyResponses(t *testing.T) {
	if os.Getenv(ofResets) != "" {
		resetEarlyResponses(t)
		return
	}
	for _, procs := range []string{"16", "64"} {
		if procs == "64" && !kit.Whole() {
			continue
		}
		t.Run("GOMAXPROCS="+procs, func(t *testing.T) {
			args := []string{"-test.run=^TestResetsOfEarlyResponses$", "-test.v", "-test.short=" + strconv.FormatBool(!kit.Whole())}
			cmd := exec.CommandContext(t.Context(), os.Args[0], args...) //nolint:gosec // this very program
			cmd.Env = append(os.Environ(), ofResets+"=1", "GOMAXPROCS="+procs)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%.4000s", out)
			t.Logf("%s", out)
		})
	}
}

func resetEarlyResponses(t *testing.T) {
	two := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.Header().Set("X-Custom", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}
	// The more there is to encode the longer it takes: of 100 fields, 100 to 4,000 streams were
	// enough for a limiter that writes to the map; of two, as many as 400,000.
	many := func(w http.ResponseWriter, r *http.Request) {
		for i := range 100 {
			w.Header().Set("X-Custom-"+strconv.Itoa(i), "1")
		}
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Custom-1", "2") // Go's own fault, where no limiter stands
		two(w, r)
	}
	limit := func(policy string, h http.Handler) http.Handler {
		cfg := open()
		cfg.Policy = policy
		return newLimiter(t, cfg).Handler(h)
	}
	most, longest := int64(1500), 5*time.Second
	switch {
	case kit.Long():
		most, longest = 100_000, time.Minute
	case !kit.Whole():
		most = 300
	}
	upstream := serve(t, http.HandlerFunc(many)).URL
	proxy := func() http.Handler {
		p := proxyTo(t, upstream).(*httputil.ReverseProxy)
		p.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // each request is canceled
		return p
	}
	for _, test := range []struct {
		name            string
		handler         http.Handler
		stacked, secure bool
	}{
		{"two fields", http.HandlerFunc(two), false, false},
		{"many fields", http.HandlerFunc(many), false, false},
		{"many fields, stacked", http.HandlerFunc(many), true, false},
		{"many fields, TLS", http.HandlerFunc(many), false, true},
		{"a proxy", proxy(), false, false},
		{"a proxy, TLS", proxy(), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var hangUp sync.Map // by the query of a request
			h := limit("page", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				end, _ := hangUp.Load(r.URL.RawQuery)
				test.handler.ServeHTTP(&hungUpOn{w, end.(context.CancelFunc)}, r)
			}))
			if test.stacked {
				h = limit("site", h)
			}
			server := httptest.NewUnstartedServer(h)
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Config.Protocols.SetHTTP2(true)
			if server.EnableHTTP2 = test.secure; test.secure {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			var streams atomic.Int64
			end := time.Now().Add(longest)
			kit.Together(8, func(int) {
				transport := server.Client().Transport.(*http.Transport).Clone()
				transport.Protocols = server.Config.Protocols
				defer transport.CloseIdleConnections()
				for n := streams.Add(1); n <= most && time.Now().Before(end); n = streams.Add(1) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					hangUp.Store(fmt.Sprint(n), cancel)
					r, _ := http.NewRequestWithContext(ctx, []string{http.MethodGet, http.MethodPost}[n%2], fmt.Sprint(server.URL, "/?", n), http.NoBody)
					if resp, err := transport.RoundTrip(r); err == nil {
						_ = resp.Body.Close()
					}
					cancel()
				}
			})
			t.Logf("%d streams", min(streams.Load(), most))
		})
	}
}

// hungUpOn is the writer of a response whose client resets the stream at about the time when a 1xx is written.
type hungUpOn struct {
	http.ResponseWriter
	hangUp context.CancelFunc
}

func (w *hungUpOn) WriteHeader(status int) {
	if status < 200 {
		w.hangUp()
		for range rand.IntN(2000) {
			jitter.Add(1)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

var jitter atomic.Int64

// requireNoSecret looks for four bytes of a secret in a row, in every spelling that fmt and slog have for bytes.
func requireNoSecret(t *testing.T, text string, secrets ...[]byte) {
	t.Helper()
	for _, s := range secrets {
		for i := range max(0, len(s)-3) {
			four := s[i : i+4]
			require.NotContains(t, text, string(four))
			require.NotContains(t, strings.ToLower(text), hex.EncodeToString(four))
			require.NotContains(t, text, strings.Trim(fmt.Sprint(four), "[]"))
			require.NotContains(t, text, strings.Trim(fmt.Sprintf("%#v", four), "[]byte{}"))
		}
		require.NotContains(t, text, base64.StdEncoding.EncodeToString(s)[:8])
		require.NotContains(t, text, base64.RawURLEncoding.EncodeToString(s)[:8])
	}
}

// printed is v by every verb, logger and encoder that someone might try.
func printed(v any) string {
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
	encoded, err := json.Marshal(v)
	fmt.Fprintln(&b, string(encoded), err)
	return b.String()
}

func TestNothingPrintsASecret(t *testing.T) {
	secrets := [][]byte{secret("a"), secret("b")}
	t.Run("the test would see one", func(t *testing.T) {
		for _, verb := range []string{"%v", "%x", "%#v", "%s"} {
			text := fmt.Sprintf(verb, secrets[0])
			found := strings.Contains(text, string(secrets[0][:4])) ||
				strings.Contains(text, hex.EncodeToString(secrets[0][:4])) ||
				strings.Contains(text, strings.Trim(fmt.Sprint(secrets[0][:4]), "[]")) ||
				strings.Contains(text, strings.Trim(fmt.Sprintf("%#v", secrets[0][:4]), "[]byte{}"))
			require.True(t, found, verb)
		}
	})
	cfg := contact(new(clock))
	cfg.Secrets = secrets
	t.Run("Config", func(t *testing.T) {
		requireNoSecret(t, printed(cfg), secrets...)
		requireNoSecret(t, printed(&cfg), secrets...)
		require.Equal(t, "middleware.Config(contact)", fmt.Sprint(cfg))
	})
	t.Run("Middleware", func(t *testing.T) {
		m := newLimiter(t, cfg)
		requireNoSecret(t, printed(m), secrets...)
		requireNoSecret(t, printed(m.Handler(new(spy))), secrets...)
	})
	t.Run("Middleware with a waiting room", func(t *testing.T) {
		h := newSite(t, changed(waiting(new(clock), middleware.Newcomers), func(cfg *middleware.Config) { cfg.Secrets = secrets }))
		requireNoSecret(t, printed(h.M), secrets...)
		send(h, html)
		requireNoSecret(t, printed(h.Decisions.Last()), secrets...)
	})
	t.Run("Decision", func(t *testing.T) {
		decisions := record(&cfg)
		h, _ := limited(t, cfg)
		send(h, showing("garbage"))
		requireNoSecret(t, printed(decisions.Last()), secrets...)
	})
	t.Run("a Decision where package fmt calls no method", func(t *testing.T) {
		decisions := record(&cfg)
		h, _ := limited(t, cfg)
		send(h)
		prk := kit.Must(hkdf.Extract(sha256.New, secrets[0], []byte("tallystick/v1")))(t)
		key := kit.Must(hkdf.Expand(sha256.New, prk, "tallystick/v1/pseudonym", sha256.Size))(t)
		text := printed(struct{ d middleware.Decision }{decisions.Last()})
		for _, verb := range []string{"%v", "%s", "%x", "%d"} {
			require.False(t, strings.Contains(text, strings.Trim(fmt.Sprintf(verb, key[:]), "[]")), verb)
			require.False(t, strings.Contains(text, strings.Trim(fmt.Sprintf(verb, [32]byte(key)), "[]")), verb)
		}
	})
	t.Run("errors", func(t *testing.T) {
		wrong, _ := everythingWrong()
		_, err := middleware.New(wrong)
		for e := range eachError(err) {
			requireNoSecret(t, printed(e), wrong.Secrets[:3]...)
		}
	})
}

// eachError yields an error and all that it wraps.
func eachError(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		if !yield(err) {
			return
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				eachError(e)(yield)
			}
		} else if inner := errors.Unwrap(err); inner != nil {
			eachError(inner)(yield)
		}
	}
}
