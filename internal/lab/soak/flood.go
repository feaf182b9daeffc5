// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tallystick/tallystick/middleware"
)

// floods sends forged tokens and proofs as fast as it can, on one connection, while it is on.
// Requests are written whole: what they cost is the servers'.
func (w *world) floods(ctx context.Context, number int, on func() bool) {
	r := rand.New(rand.NewPCG(uint64(number), 11))
	var addresses [64]netip.Addr
	for i := range addresses {
		addresses[i] = w.host()
	}
	var conn net.Conn
	var back *bufio.Reader
	hangUp := func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	defer hangUp()
	real := w.realToken()
	for n := 0; ctx.Err() == nil && on(); n++ {
		if conn == nil {
			c, err := net.Dial("tcp", w.sites[(number+n)%instances].addr)
			if err != nil {
				w.fail(err)
				return
			}
			conn, back = c, bufio.NewReader(c)
		}
		policy := []string{windowed, form, busy}[r.IntN(3)]
		field, value := forge(r, real)
		if _, err := fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: soak\r\n%s: floods %d\r\nX-Forwarded-For: %s\r\nContent-Length: 0\r\n%s: %s\r\n\r\n",
			policy, nameField, number, addresses[r.IntN(len(addresses))], field, value); err != nil {
			hangUp()
			continue
		}
		resp, err := http.ReadResponse(back, nil)
		if err != nil {
			hangUp()
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
			hangUp()
		}
		w.forged.Add(1)
	}
}

// realToken returns a token to forge others of.
func (w *world) realToken() string {
	return w.caller(windowed, "model", 0).try(0).token()
}

// forge returns a field that pretends to be something, of the kinds that are read differently.
func forge(r *rand.Rand, real string) (field, value string) {
	parts := strings.Split(real, ".")
	if len(parts) != 3 {
		return middleware.TokenHeader, "a.b.c"
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	again := func(payload string) string {
		return parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + parts[2]
	}
	field = middleware.TokenHeader
	switch r.IntN(9) {
	case 0: // the longest that is looked at
		return field, parts[0] + "." + strings.Repeat("A", max(1, 511-len(parts[0])-len(parts[2]))) + "." + parts[2]
	case 1: // longer
		return field, strings.Repeat("A", 4000)
	case 2: // of a key of ours, with other counts
		return field, again(string(payload[:len(payload)-1]) + fmt.Sprintf(`,"n":%d}`, r.IntN(1<<30)))
	case 3: // a flipped bit
		b := []byte(real)
		b[r.IntN(len(b))] ^= 1
		return field, string(b)
	case 4: // of another policy's, or no key at all
		return field, base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"AAAAAAAA","typ":"tally+jwt"}`)) + "." + parts[1] + "." + parts[2]
	case 5: // more than are looked at
		return field, strings.TrimSuffix(strings.Repeat(again("{}")+",", 12), ",")
	case 6: // low: almost nothing
		return field, "."
	case 7: // as a cookie
		return "Cookie", "__Host-tallystick-" + windowed + "=" + again("{}")
	}
	return middleware.ProofHeader, strings.Repeat("A", 120) + "~0.0.0.0.0.0.0.0"
}
