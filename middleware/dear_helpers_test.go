// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tallystick/tallystick/middleware"
)

// A dear request is one that is made to cost the server much.
type dear struct {
	name    string
	cfg     middleware.Config
	options []option
	body    string
}

// begun is the unit of what a client sends.
const begun = 16 << 10

// filled repeats text up to n bytes.
func filled(n int, text string) string {
	return strings.Repeat(text, n/len(text)+1)[:n/len(text)*len(text)]
}

// numbered joins n texts that have a number each.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// repeated is n lines of a field.
func repeated(n int, name, value string) option {
	return func(r *http.Request) { r.Header[name] = slices.Repeat([]string{value}, n) }
}

// dearRequests are the dearest that were found, of each thing that is read.
func dearRequests(t testing.TB) (all []dear) {
	add := func(name string, cfg middleware.Config, body string, options ...option) {
		all = append(all, dear{name, cfg, options, body})
	}
	kept := keeping(new(clock), middleware.Newcomers)
	form := func(name, body string, options ...option) {
		add("form: "+name, kept, body, append([]option{submitting(urlencoded, body)}, options...)...)
	}
	form("empty", "")
	form("letters", "a="+filled(4*begun-2, "a"))
	form("quotes", "a="+filled(4*begun-2, `"`))
	form("escaped quotes", "a="+filled(4*begun-2, "%22"))
	form("escaped letters", "a="+filled(4*begun-2, "%41"))
	form("characters of two bytes", "a="+filled(4*begun-2, "é"))
	form("CR and LF", "a="+filled(4*begun-2, "%0D%0A"))
	form("tiny fields", filled(400, "a=b&"))
	form("tiny fields, escaped", filled(800, "%41=%22&"))
	form("medium fields", filled(16*100, "abcdefg=hijklmn&"))
	form("medium fields of two bytes a character", filled(100*32, "ééééééé=éééééééé&"))
	form("a name of capitals", filled(4*begun-2, "aB")+"=x")
	form("a name of passes", filled(4*begun-2, "pass-")+"=x")
	form("names of capitals", filled(begun, filled(250, "aB")+"=x&"))
	form("names of short words", filled(begun, filled(48, "p-")+"=x&"))
	form("names that begin as secrets", filled(begun, filled(250, "passwor")+"=x&"))
	form("names that begin as many", filled(begun, filled(250, "card")+"=x&"))
	form("names of letters of four bytes", filled(begun, filled(248, "𐐀")+"=x&"))
	form("names of digits", filled(begun, filled(250, "1")+"=x&"))
	form("secret names", numbered(100, "password%d=x&"))
	form("secret names of words", numbered(100, "cc-%03d-no=x&"))
	form("secret names, long", numbered(100, "%0100dpassword=x&"))
	form("the way back", "a=b", with("Referer", "http://example.com/?"+filled(2000, "&")))
	form("a long way back", "a=b", with("Referer", "http://example.com/"+filled(begun, "%41")))
	form("where it is from", "a=b", func(r *http.Request) {
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", "http://example.com/"+filled(begun-100, "%41"))
	})
	form("its type", "a=b", with("Content-Type", urlencoded), func(r *http.Request) {
		r.Header["Content-Type"] = []string{urlencoded + numbered(1500, ";a%d=b")}
	})
	form("its language", "a=b", repeated(begun/64, "Accept-Language", filled(64, "x,")))
	form("its language, of many parameters", "a=b", with("Accept-Language", "de"+filled(begun-100, ";a")))

	room := room()
	add("page", room, "", html)
	add("page that opens itself", room, "", navigating("Accept-Language", "zh"))
	add("accept: many lines", room, "", repeated(begun/74, "Accept", filled(64, "a,")))
	add("accept: short lines", room, "", repeated(begun/10, "Accept", "a"))
	add("accept: parameters", room, "", with("Accept", "text/html"+filled(begun-100, ";a")))
	ask := func(name string, options ...option) {
		add("challenge: "+name, kept, "", append([]option{method("GET"), path("/tally/challenge")}, options...)...)
	}
	ask("one", query("cost=1"))
	ask("a cost that is escaped", query("cost="+filled(begun-100, "%31")))
	ask("parameters", query(filled(begun-100, "a=b&")))
	ask("ampersands", query(filled(begun-100, "&")))
	ask("a long cost", query("cost="+filled(begun-100, "1")))
	ask("origin", with("Origin", "http://example.com/"+filled(begun-100, "%41")))
	add("redeem: a long proof", kept, "", path("/tally/redeem"), proving(filled(begun-100, "A~")))
	add("redeem: dots", kept, "", path("/tally/redeem"), proving(filled(900, "A")+"~"+filled(600, ".")))
	file := func(name string, options ...option) {
		add("file: "+name, kept, "", append([]option{method("GET"), path("/tally/tally.js")}, options...)...)
	}
	file("whole")
	file("ranges", with("Range", "bytes="+filled(begun-100, "0-0,")+"0-0"))
	file("entity tags", with("If-None-Match", filled(begun-100, `"",`)+`""`))
	file("a long name", path("/tally/tally."+filled(begun-100, "a")+".js"))

	tok, one := earned(t, open()), open()
	wrong := solved(t, send(newSite(t, room)))
	wrong = wrong[:len(wrong)-1] + "A"
	add("tokens: four forged", one, "", showing(slices.Repeat([]string{forgery(tok)}, 4)...))
	add("tokens: commas", one, "", repeated(2, middleware.TokenHeader, filled(8000, ",")))
	add("tokens: lines", one, "", repeated(begun/20, middleware.TokenHeader, ""))
	add("tokens: foreign", one, "", showing(slices.Repeat([]string{tok[:40] + filled(460, "A")}, 32)...))
	add("tickets and proofs", room, "", html, proving(wrong, wrong, wrong, wrong), holding(ticketsOf(t, newSite(t, room), 4)...))
	add("cookies: ours", one, "", with("Cookie", filled(begun-500, "__Host-tallystick-contact")))
	add("cookies: ours, other ends", room, "", with("Cookie", filled(begun-500, "__Host-tallystick-contact.proof.0000000")))
	add("cookies: empty", room, "", with("Cookie", filled(begun-500, "__Host-tallystick-contact=;")))
	add("cookies: lines", one, "", repeated(begun/8, "Cookie", ""))

	behind := open()
	var err error
	private := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("10.0.0.0/8")}
	if behind.Identity, err = middleware.AddressFromHeader("Forwarded", private...); err != nil {
		t.Fatal(err)
	}
	add("forwarded: elements", behind, "", with("Forwarded", filled(begun, ",for=10.0.0.1;"+filled(480, "by=a;"))[1:]))
	add("forwarded: tokens", behind, "", with("Forwarded", filled(begun, ",for=10.0.0.1;by="+filled(480, "z"))[1:]))
	xff := open()
	if xff.Identity, err = middleware.ForwardedFor(private...); err != nil {
		t.Fatal(err)
	}
	add("forwarded for: addresses", xff, "", with("X-Forwarded-For", filled(begun, ",10.0.0.1")[1:]))
	add("forwarded for: lines", xff, "", repeated(begun/20, "X-Forwarded-For", ""))
	key := open()
	key.Identity = func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey(r.Header.Get("Api-Key")), nil
	}
	add("key: 16 KB", key, "", with("Api-Key", filled(begun-100, "k")))
	add("key: 1 MB", key, "", with("Api-Key", filled(64*begun-100, "k")))
	worked := room
	worked.Identity = key.Identity
	add("key: 16 KB, and work", worked, "", html, with("Api-Key", filled(begun-100, "k")), proving(wrong, wrong, wrong, wrong))
	add("preflight", one, "", method("OPTIONS"), with("Origin", filled(begun, "o"), "Access-Control-Request-Method", "POST", "X-Method-Override", "x"))
	return all
}

// A measured request is sent again and again.
type measured struct {
	h        http.Handler
	r        *http.Request
	body     string
	w        measuredSink
	sent     int // bytes, as HTTP/1.1
	answered int // bytes, with the fields
}

func newMeasured(t testing.TB, d dear) *measured {
	l := newLimiter(t, d.cfg)
	m := &measured{h: l.Handler(new(nothing)), r: httptest.NewRequest(http.MethodPost, "/", http.NoBody), body: d.body}
	from("203.0.113.1")(m.r)
	for _, option := range d.options {
		option(m.r)
	}
	if strings.HasPrefix(m.r.URL.Path, "/tally/") {
		m.h = l.Endpoints()
	}
	m.sent = sizeOf(m.r.Header) + len(m.r.Method) + len(m.r.URL.RequestURI()) + len(" HTTP/1.1\r\nHost: example.com\r\n\r\n") + len(d.body)
	m.send()
	m.answered = m.w.written + sizeOf(m.w.header)
	return m
}

func (m *measured) send() {
	if m.body != "" {
		m.r.Body = &readOnce{Reader: *strings.NewReader(m.body)}
	}
	m.w.written = 0
	if m.w.header == nil {
		m.w.header = http.Header{}
	}
	clear(m.w.header)
	m.h.ServeHTTP(&m.w, m.r)
}

// pieces is how many times 16 KB were begun.
func (m *measured) pieces() int { return (m.sent + begun - 1) / begun }

func sizeOf(h http.Header) (n int) {
	for name, lines := range h {
		for _, line := range lines {
			n += len(name) + len(": \r\n") + len(line)
		}
	}
	return n
}

// Nothing is a handler that does nothing.
type nothing struct{}

func (*nothing) ServeHTTP(http.ResponseWriter, *http.Request) {}

type readOnce struct{ strings.Reader }

func (*readOnce) Close() error { return nil }

// A measuredSink counts what is written.
type measuredSink struct {
	header  http.Header
	written int
}

func (s *measuredSink) Header() http.Header { return s.header }
func (s *measuredSink) WriteHeader(int)     {}
func (s *measuredSink) Write(b []byte) (int, error) {
	s.written += len(b)
	return len(b), nil
}
