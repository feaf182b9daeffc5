// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
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

func filled(n int, text string) string {
	return strings.Repeat(text, n/len(text)+1)[:n/len(text)*len(text)]
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func repeated(n int, name, value string) option {
	return func(r *http.Request) { r.Header[name] = slices.Repeat([]string{value}, n) }
}

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

// A measured request has a size, and its answer.
type measured struct {
	load
	sent     int // bytes, as HTTP/1.1
	answered int // bytes, with the fields
}

func newMeasured(t testing.TB, d dear) *measured {
	l := newLimiter(t, d.cfg)
	m := &measured{load: load{h: l.Handler(nothing), r: handlers.NewRequest(d.options...), body: d.body, header: http.Header{}}}
	if strings.HasPrefix(m.r.URL.Path, "/tally/") {
		m.h = l.Endpoints()
	}
	m.sent = sizeOf(m.r.Header) + len(m.r.Method) + len(m.r.URL.RequestURI()) + len(" HTTP/1.1\r\nHost: example.com\r\n\r\n") + len(d.body)
	m.send()
	m.answered = m.written + sizeOf(m.header)
	return m
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

// What a request may cost, for each 16 KB that its client has begun to send: what 20 ordinary ones
// allocate without a token. Bytes are bounded by a multiple of the bytes that were sent, whatever is in
// them.
const (
	mostAllocations = 20 * 3
	mostTimesSent   = 6
	mostBytes       = 40 << 10
)

// No request is a weapon: none is answered with more than twice its bytes and 16 KB, nor
// allocates more than its share.
func TestDear(t *testing.T) {
	for _, d := range dearRequests(t) {
		t.Run(d.name, func(t *testing.T) {
			m := newMeasured(t, d)
			require.LessOrEqual(t, m.answered, 2*m.sent+begun)
			if kit.Race {
				return // it allocates on its own
			}
			n, size := testing.AllocsPerRun(20, m.send), allocated(m.send)
			t.Logf("%d bytes, answered with %d: %.0f allocations, %d bytes", m.sent, m.answered, n, size)
			require.LessOrEqual(t, int(n), mostAllocations*m.pieces())
			require.LessOrEqual(t, int(size), mostTimesSent*m.sent+mostBytes)
		})
	}
}

// BenchmarkDear has what they cost: times an ordinary POST that is allowed, in the same run, for
// each 16 KB begun. At most 20.
func BenchmarkDear(b *testing.B) {
	ordinary := newMeasured(b, dear{cfg: open(), options: []option{showing(earned(b, open()))}})
	for _, d := range dearRequests(b) {
		b.Run(d.name, func(b *testing.B) {
			m := newMeasured(b, d)
			b.ReportAllocs()
			for b.Loop() {
				m.send()
			}
			one, each := time.Hour, time.Hour
			for range 300 {
				one, each = min(one, took(ordinary.send)), min(each, took(m.send))
			}
			b.ReportMetric(float64(each)/float64(one)/float64(m.pieces()), "ordinary/16KB")
			b.ReportMetric(float64(m.sent), "sent")
			b.ReportMetric(float64(m.answered), "answered")
		})
	}
}

// took returns how long f takes, of as many times as take a moment: so short that on a busy
// machine some of them are not interrupted.
func took(f func()) time.Duration {
	const least = 200 * time.Microsecond
	began, n := time.Now(), time.Duration(0)
	for n == 0 || time.Since(began) < least {
		f()
		n++
	}
	return time.Since(began) / n
}
