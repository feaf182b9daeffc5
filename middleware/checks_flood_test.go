// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A client that lies in every field that the checks read has at most a line a minute for each
// check, and no word of its own in any.
func TestNoClientWritesTheLog(t *testing.T) {
	const evil = "evil\r\nlevel=ERROR msg=owned\x1b[2J"
	now, rnd := new(clock), random(3)
	cfg := challenging(now, middleware.Newcomers)
	log := logTo(&cfg)
	h, _ := limited(t, cfg)
	minutes := 0
	for i := range 1800 {
		if now.advance(time.Second); i%60 == 0 {
			minutes++
		}
		host := []string{"example.org", evil, "localhost", ""}[rnd.IntN(4)]
		send(h, from([]string{"10.0.0.1", "203.0.113.9", "2001:db8::1", "192.168.1.1"}[rnd.IntN(4)]), func(r *http.Request) {
			r.Host = host
			if rnd.IntN(2) == 0 {
				r.Method = http.MethodGet
			}
			for name, value := range map[string]string{
				"Origin": "http://" + host, "Referer": "https://" + host + "/" + evil, "User-Agent": evil + strings.Repeat("x", rnd.IntN(9)),
				"X-Forwarded-For": "198.51.100." + string(rune('1'+rnd.IntN(9))) + ", " + evil, "Forwarded": "for=" + evil,
				"X-Real-Ip": evil, "Accept": "text/html", "Cookie": "__Host-tallystick-contact=" + evil,
				middleware.TokenHeader: evil, middleware.ProofHeader: evil,
			} {
				if rnd.IntN(2) == 0 {
					r.Header.Set(name, value)
				}
			}
		})
	}
	lines, told := 0, map[string]int{}
	for _, line := range log.lines() {
		lines++
		_, code, _ := strings.Cut(line, "code=")
		code, _, _ = strings.Cut(code, " ")
		require.NotEmpty(t, code, line)
		told[code]++
	}
	for code, n := range told {
		require.LessOrEqual(t, n, minutes+1, code)
	}
	require.Positive(t, lines)
	for _, word := range []string{"evil", "owned", "198.51.100"} {
		require.NotContains(t, strings.Join(log.lines(), "\n"), word)
	}
}
