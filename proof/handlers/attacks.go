// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/token"
)

// Forgery has the length and the header of a token, and no meaning.
func Forgery(tok string) string {
	return tok[:64] + strings.Repeat("A", 512-64-44) + "." + strings.Repeat("A", 43)
}

// Hostile stands for what may surround a limiter: it plants fields of ours before
// and edits them after, and sets fields of its own that must survive.
func Hostile(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Vary", "Origin")
		header.Set("Set-Cookie", "session=1")
		header.Set("Cache-Control", "private, max-age=600")
		for _, name := range []string{"RateLimit", "RateLimit-Policy", middleware.TokenHeader} {
			header.Set(name, "planted")
		}
		h.ServeHTTP(w, r)
		for name, lines := range header {
			header[name][0] = "edited"
			header[name] = append(lines, "edited")
		}
	})
}

// RequireRetry checks Retry-After: the wait, up to a tenth and 30 s more.
func RequireRetry(t testing.TB, resp *http.Response, wait int) {
	t.Helper()
	if wait == 0 {
		require.Empty(t, resp.Header.Values("Retry-After"))
		return
	}
	require.Len(t, resp.Header.Values("Retry-After"), 1)
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, seconds, wait)
	require.LessOrEqual(t, seconds, wait+min(wait/10, 30))
}

// A Flood is requests by as many addresses as one likes, without the cost of making each request anew.
type Flood struct {
	next uint32
	Cfg  middleware.Config
	w    Sink
	r    *http.Request
}

// NewFlood returns a flood under a configuration, which then identifies its addresses. A request with the field Victim comes from an address of its own.
func NewFlood(cfg middleware.Config) *Flood {
	f := &Flood{Cfg: cfg, w: Sink{Fields: http.Header{}}, r: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}
	f.Cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		if r.Header.Get("Victim") != "" {
			return Address("198.51.100.20"), nil
		}
		f.next++
		return middleware.Address(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, f.next|10<<24)))), nil
	}
	return f
}

func (f *Flood) Send(h http.Handler, n int) {
	for range n {
		clear(f.w.Fields)
		h.ServeHTTP(&f.w, f.r)
	}
}

// Encode is the spelling of a part of a token.
func Encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// Thief signs with the key that policy contact derives from the secret "a".
func Thief(t *testing.T, header, payload string) string {
	t.Helper()
	keyfunc, err := token.Keyfunc("contact", [][]byte{Secret("a")})
	require.NoError(t, err)
	kid := header[strings.Index(header, `"kid":"`)+7:][:4]
	key, err := keyfunc(&jwt.Token{Header: map[string]any{"alg": "HS256", "typ": "t+jwt", "kid": kid}})
	require.NoError(t, err)
	signed := Encode(header) + "." + Encode(payload)
	mac := hmac.New(sha256.New, key.([]byte))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Genuine returns a token that 203.0.113.1 has earned by n requests, taken apart.
func Genuine(t testing.TB, n int) (tok, header, payload string) {
	t.Helper()
	h, _ := Limited(t, Contact(new(Clock)))
	tok = Spend(t, h, n)
	header, payload = partsOf(t, tok)
	return tok, header, payload
}

// partsOf decodes a token, without its signature.
func partsOf(t testing.TB, tok string) (header, payload string) {
	t.Helper()
	parts := strings.Split(tok, ".")
	require.Len(t, parts, 3)
	for i, part := range []*string{&header, &payload} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
		*part = string(b)
	}
	return header, payload
}

// Allocated returns how many bytes f allocates: the smallest of a few runs.
func Allocated(f func()) uint64 {
	least := ^uint64(0)
	var before, after runtime.MemStats
	for range 5 {
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// A Sink is a ResponseWriter that costs nothing.
type Sink struct{ Fields http.Header }

func (s *Sink) Header() http.Header { return s.Fields }

func (s *Sink) Write(b []byte) (int, error) { return len(b), nil }

func (s *Sink) WriteHeader(int) {}

// AllocatedBy returns how many bytes a handler allocates for a request.
func AllocatedBy(h http.Handler, options ...Option) uint64 {
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	for _, option := range options {
		option(r)
	}
	w := &Sink{Fields: http.Header{}}
	return Allocated(func() {
		clear(w.Fields)
		h.ServeHTTP(w, r)
	})
}
