// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
)

// forged shows whatever is no token of its own, beside nothing, and beside the first real one.
func forged(s *scene) {
	c := s.attacker(netip.Addr{})
	real := c.send(s.through()).token()
	all := forgeries(real)
	s.each(func(base string) {
		for range s.more() {
			c.send(base)
		}
		for _, f := range all {
			c.send(base, middleware.TokenHeader, f)
			c.send(base, middleware.TokenHeader, f, middleware.TokenHeader, real)
			c.send(base, "Cookie", "__Host-tallystick-"+s.route.Policy+"="+f)
			c.send(base, middleware.ProofHeader, f)
		}
	})
}

// oversized shows far too much of everything, straight to the instances: the proxy would not
// have it.
func oversized(s *scene) {
	c := s.attacker(netip.Addr{})
	real := c.send(s.through()).token()
	name := "__Host-tallystick-" + s.route.Policy
	lines := make([]string, 0, 400)
	for range 200 {
		lines = append(lines, middleware.TokenHeader, real)
	}
	s.each(func(base string) {
		for range s.more() {
			c.send(base, middleware.TokenHeader, strings.Repeat("A", 600_000))
			c.send(base, middleware.TokenHeader, strings.Repeat(real+",", 3000))
			c.send(base, "Cookie", strings.Repeat(name+"=A; ", 3000)+name+"="+real)
			c.send(base, middleware.ProofHeader, strings.Repeat("~0.0", 100_000))
			c.send(base, "X-Forwarded-For", strings.Repeat("10.0.0.1,", 50_000))
			c.send(base, lines...)
		}
	})
}

// cached fills a shared cache, in the middle of which it is refused. Those who come after it get
// neither what is its own, nor its refusals.
func cached(s *scene) {
	first, address := s.attacker(netip.Addr{}), s.host()
	second := s.caller(s.honestly(), s.dialer(address), address, true)
	url := func(i int) string { return fmt.Sprintf("%s/%s?page=%d", s.through(), s.route.Policy, i) }
	for i := range s.n() * int64(s.more()) {
		first.do(http.MethodGet, url(int(i)))
	}
	hits := 0
	for i := range s.n()*s.route.Quota + 3 {
		a := second.do(http.MethodGet, url(int(i)))
		if a.header.Get("Lab-Cache") != "HIT" {
			continue
		}
		hits++
		for _, field := range []string{middleware.TokenHeader, middleware.ChallengeHeader, "Set-Cookie", "RateLimit", "Retry-After"} {
			if a.header.Get(field) != "" {
				s.broken("a shared cache gives another client " + field)
			}
		}
		if !a.admitted() {
			s.broken("a shared cache gives another client a refusal")
		}
	}
	if hits == 0 {
		s.fail(errors.New("the cache is none"))
	}
}

// forgeries makes tokens of a real one that are none.
func forgeries(real string) []string {
	parts := strings.Split(real, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	with := func(header, payload string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "."
	}
	list := []string{
		with(`{"alg":"none","typ":"tally+jwt"}`, string(payload)),
		with(`{"alg":"None","typ":"tally+jwt"}`, string(payload)) + parts[2],
		with(`{"alg":"HS512","kid":"../../etc/passwd","typ":"tally+jwt"}`, string(payload)) + parts[2],
		with(`{"alg":"RS256","jku":"http://127.0.0.1/","crit":["exp"],"typ":"tally+jwt"}`, string(payload)) + parts[2],
		parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), `"sub"`, `"fam"`, 1))) + "." + parts[2],
		parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`)) + "." + parts[2],
		real + ".", real + "=", "." + real, strings.ToUpper(real), strings.Repeat(real+",", 40),
		real[:len(real)-1], strings.Repeat("A", 513), strings.Repeat("A", 7000), "..", "~0.0.0.0.0.0.0.0",
	}
	for i := 0; i < len(real); i += 7 { // one character changed
		flipped := []byte(real)
		flipped[i] ^= 1
		list = append(list, string(flipped))
	}
	return list
}

// aborted closes its connections before it has read an answer, and asks again.
func aborted(s *scene) {
	from := s.host()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	request := fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: lab\r\n%s: %s\r\nContent-Length: 0\r\n\r\n", s.route.Policy, instance.ClientHeader, s.row+instance.Attacker)
	s.each(func(base string) {
		for range s.more() {
			s.sent.Add(1)
			conn, err := d.DialContext(s.cluster.ctx, "tcp", strings.TrimPrefix(base, "http://"))
			if err == nil {
				_, err = conn.Write([]byte(request))
			}
			if err != nil {
				s.fail(err)
				return
			}
			_ = conn.Close()
		}
	})
	c := s.attacker(from)
	s.each(func(base string) {
		for range s.more() {
			c.send(base)
		}
	})
}
