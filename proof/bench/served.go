// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// trips are the rows of what a request costs where it is served for real. In fields our fields go in
// both directions, and nothing is computed.
func trips() []request {
	post, us, bare := http.MethodPost, overBuilder(ours()), overBuilder(limiters["bare"])
	return []request{
		{none, "", "", shown(bare, nil)},
		{"fields", "", "", echo(post, byHeader, overBuilder(fieldsAlone))},
		{reference, "", "", shown(overBuilder(limiters[reference]), nil)},
		{"throttled", "", "", shown(overBuilder(limiters["throttled"]), nil)},
		{lowest, "", "", echo(post, byHeader, overBuilder(newFloor))},
		{ourName + "-post", "", "", echo(post, byHeader, us)},
		{ourName + "-hop", "", "", echo(post, byHeader, us, us)},
		{ourName + "-cookie-post", "", "", echo(post, byCookie, us)},
	}
}

func overBuilder(b builder) builder {
	return func(o *opening, t terms) http.Handler { return overHTTP(o, b(o, t), 1) }
}

// fieldsAlone sends the fields of answers of ours as they stood in two: to no token, and to one by
// header.
func fieldsAlone(o *opening, t terms) http.Handler {
	a := newAsker(http.MethodPost, ours()(o, t))
	a.run(1)
	first := a.w.header.Clone()
	a.show(byHeader, first[byHeader])
	a.run(1)
	after, next := a.w.header.Clone(), served()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := after
		if r.Header[byHeader] == nil {
			fields = first
		}
		maps.Copy(w.Header(), fields)
		next.ServeHTTP(w, r)
	})
}

func openServed(s *settings, o *opening) (all []player) {
	for _, t := range trips() {
		if s.wants(t.name) {
			all = append(all, t.open(o).player(t.name))
		}
	}
	return all
}

// A shape is a request and an answer of which the fields were made beforehand, to see what bytes
// cost. TLS is not measured; it encrypts gigabytes a second.
type shape struct {
	name    string
	sends   field   // beside what every client sends; zero: nothing
	answers []field // beside the Content-Type that most set
	plain   bool    // no Content-Type: what any handler pays for its first field is no limiter's cost
}

// A field is a line of a message. Its values take turns, one for each message, so that the
// compression of HTTP/2 meets again only what it would meet again in life. They have one length.
type field struct {
	name   string
	values [][]string
}

// different is how many values of a field there are.
const different = 64

// shapes are the rows; the first is the bare one, and the last four tell what a byte costs.
func shapes() []shape {
	minute, day := middleware.Limit{Quota: 500, Window: time.Minute}, middleware.Limit{Quota: 5000, Window: 24 * time.Hour}
	a, b := ourFields(minute), ourFields(minute, day)
	quotas, rate, token, cache, cookie := a["Ratelimit-Policy"], a["Ratelimit"], a[byHeader], a["Cache-Control"], a[setCookie]
	shown := field{name: byCookie}
	for _, line := range cookie.values {
		pair, _, _ := strings.Cut(line[0], ";")
		shown.values = append(shown.values, []string{pair})
	}
	short, long := padding(8), padding(8+padded)
	return []shape{
		{name: none},
		{name: "no `Content-Type`", plain: true},
		{name: "`RateLimit-Policy`", answers: []field{quotas}},
		{name: "`RateLimit`", answers: []field{rate}},
		{name: "`Tallystick-Token`", answers: []field{token}},
		{name: "`Cache-Control`", answers: []field{cache}},
		{name: "`Set-Cookie`", answers: []field{cookie}},
		{name: "`Tallystick-Token` shown", sends: token},
		{name: "`Cookie` shown", sends: shown},
		{name: "all, nothing shown", answers: []field{quotas, rate, token, cache, cookie}},
		{name: "all, by field", sends: token, answers: []field{quotas, rate, token, cache}},
		{name: "all, by cookie", sends: shown, answers: []field{quotas, rate, cache, cookie}},
		{name: "all, by field, two limits", sends: b[byHeader], answers: []field{b["Ratelimit-Policy"], b["Ratelimit"], b[byHeader], cache}},
		{name: "short answer", answers: []field{short}}, {name: "long answer", answers: []field{long}},
		{name: "short request", sends: short}, {name: "long request", sends: long},
	}
}

// padded are the characters between short and long.
const padded = 400

// padding is a field whose value has n characters of base64url, another one each time, as a token
// has, and a name as long as a token's.
func padding(n int) field {
	random, raw := rand.NewChaCha8([32]byte{byte(n)}), make([]byte, n)
	f := field{name: "X-Padding-Field-"}
	for range different {
		_, _ = random.Read(raw) // never an error
		f.values = append(f.values, []string{base64.RawURLEncoding.EncodeToString(raw)[:n]})
	}
	return f
}

// ourFields returns what the middleware answers to a client that has sent a hundred requests and
// shows its newest token.
func ourFields(limits ...middleware.Limit) map[string]field {
	o := new(opening)
	o.now = func() time.Time { return time.Unix(1_800_000_010, 0) }
	a := newAsker(http.MethodPost, ours(func(c *middleware.Config) {
		c.Limits = limits
	})(o, plenty(1)))
	all := make(map[string]field)
	for i := range 100 + different {
		a.run(1)
		a.show(byHeader, a.w.header[byHeader])
		for name, lines := range a.w.header {
			if i >= 100 {
				all[name] = field{name, append(all[name].values, lines)}
			}
		}
	}
	return all
}

// open opens a client of a shape.
func (s *shape) open(o *opening, version int) (*asker, *link) {
	turn, text := 0, []string{"text/plain; charset=utf-8"} // as the server would guess
	l := overHTTP(o, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		if !s.plain {
			h["Content-Type"] = text
		}
		for i := range s.answers {
			h[s.answers[i].name] = s.answers[i].values[turn%different]
		}
		turn++
		_, _ = w.Write(okay) // the client sees what it gets
	}), version)
	a := newAsker(http.MethodPost, l)
	if a.either = true; s.sends.name != "" {
		a.show(s.sends.name, s.sends.values...)
	}
	return a, l
}

// openWire opens all shapes over both versions of HTTP.
func openWire(_ *settings, o *opening) (all []player) {
	for version := 1; version <= 2; version++ {
		for _, s := range shapes() {
			a, l := s.open(o, version)
			a.run(different) // the table of HTTP/2 knows what it can know
			p := a.player(s.name + " " + strconv.Itoa(version))
			p.note = func(add func(unit string, figure float64)) {
				request, answer := l.bytes()
				add("sent", request)
				add("got", answer)
			}
			all = append(all, p)
		}
	}
	return all
}
