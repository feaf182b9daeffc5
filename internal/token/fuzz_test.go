// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/siphash"
	"github.com/tallystick/tallystick/proof/kit"
)

// fuzzCodec is the codec of the seeds in testdata/fuzz.
func fuzzCodec(t testing.TB) (*Codec, Holder, [][]byte) {
	secrets := [][]byte{secret("a"), secret("b")}
	c := newCodec(t, compile(t, "contact", contactLimits...), secrets...)
	return c, c.Holder(alice), secrets
}

// allocated returns how many bytes f allocates: the least of a few tries, for
// other goroutines allocate too.
func allocated(f func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least == 0 {
			break
		}
	}
	return least
}

// FuzzVerify shows any string: Verify does not panic, allocates next to nothing,
// and accepts what the reference accepts.
func FuzzVerify(f *testing.F) {
	c, h, secrets := fuzzCodec(f)
	tally := used(f, c.format.policy, 3)
	for _, own := range kinds(c.format.policy) {
		f.Add(string(give(&h, own, &tally)))
	}
	f.Fuzz(func(t *testing.T, tok string) {
		agree(t, &h, secrets, tok, now)
		if !kit.Race {
			require.LessOrEqual(t, allocated(func() { _, _ = h.Verify(now, tok) }), uint64(2048))
		}
	})
}

// FuzzPayload signs any payload with the right key: what is accepted, the
// reference accepts too; and what it said, said again by us, is the same.
func FuzzPayload(f *testing.F) {
	c, h, secrets := fuzzCodec(f)
	tally := used(f, c.format.policy, 3)
	for _, own := range kinds(c.format.policy) {
		f.Add(payload(f, string(give(&h, own, &tally))))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tok := sign(c.ring[0], text)
		if !agree(t, &h, secrets, tok, now) {
			return
		}
		got := kit.Must(h.Verify(now, tok))(t)
		again := string(repeat(&h, &got))
		exp := expires(c.format.policy, got.Own, &got.Tally)
		if exp == 0 || exp > maxExpires {
			require.Empty(t, again)
			return
		}
		said, p := Token{}, parser{rest: []byte(payload(t, again)[(openingLen+len(c.format.lead))/4*3:]), ok: true}
		subject, own := c.format.parseStart(&p, &said)
		require.True(t, c.format.parseCounts(&p, &said, own), "we cannot read what we wrote: %s", payload(t, again))
		if got.Own.IsZero() || got.Own.Bound {
			require.Equal(t, string(subjectOf(&h)), string(subject))
		} else {
			require.Empty(t, subject)
		}
		require.Equal(t, exp, said.Expires)
		require.Equal(t, got.Own, said.Own)
		for i, s := range got.Tally {
			if i < len(c.format.fields) && c.format.fields[i].blank(&s) {
				s.At = 0 // a window in which nothing was counted is not told
			}
			require.Equal(t, s, said.Tally[i])
		}
	})
}

// FuzzMAC holds our HMAC to crypto/hmac.
func FuzzMAC(f *testing.F) {
	f.Add([]byte("key"), "prefix", []byte("message"))
	f.Fuzz(func(t *testing.T, key []byte, prefix string, message []byte) {
		sameMAC(t, key[:min(len(key), 64)], prefix, message[:len(message)/2], message[len(message)/2:])
	})
}

// TestSeeds: the committed seeds exist, and some of them get far.
func TestSeeds(t *testing.T) {
	kit.Seeds(t, 3, "FuzzVerify", "FuzzPayload", "FuzzMAC")
	c, h, _ := fuzzCodec(t)
	read := func(name string) string {
		seed := kit.Must(os.ReadFile(filepath.Join("testdata", "fuzz", name)))(t)
		return kit.Must(seedString(string(seed)))(t)
	}
	for _, tok := range []string{
		read("FuzzVerify/signed-by-the-second-key"), read("FuzzVerify/own"), read("FuzzVerify/own-and-bound"),
		sign(c.ring[0], read("FuzzPayload/three-limits")), sign(c.ring[0], read("FuzzPayload/own")),
		sign(c.ring[0], read("FuzzPayload/own-and-bound")),
	} {
		_, err := h.Verify(now, tok)
		require.NoError(t, err, "the seed is no longer a good token; write it anew")
	}
}

// seedString returns the string of a seed in the format of go test.
func seedString(seed string) (string, error) {
	_, value, _ := strings.Cut(seed, "\n")
	value = strings.TrimPrefix(strings.TrimSpace(value), "string(")
	return strconv.Unquote(strings.TrimSuffix(value, ")"))
}

// reference is a verifier as a textbook has it: split, decode, compare, check
// the MAC, parse JSON. It is slow, allocates, parses first, and shares with the
// package only the definition of [Claims].
func reference(p *limiter.Policy, secrets [][]byte, identity []byte, tok string, now time.Time) (t Token, ok bool) {
	segments := strings.Split(tok, ".")
	if len(tok) > 512 || len(segments) != 3 {
		return t, false
	}
	var decoded [3][]byte
	for i, segment := range segments {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(segment); err != nil || strings.ContainsAny(segment, "\r\n") {
			return t, false
		}
	}
	derive := func(secret []byte, purpose string) []byte {
		key, err := hkdf.Key(sha256.New, secret, []byte("tallystick/v1"), "tallystick/v1/"+purpose+"/"+p.Name(), 32)
		if err != nil {
			panic(err)
		}
		return key
	}
	mac := func(key []byte, message []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(message)
		return h.Sum(nil)
	}
	for _, secret := range secrets {
		kid := base64.RawURLEncoding.EncodeToString(derive(secret, "kid"))[:4]
		if string(decoded[0]) != `{"alg":"HS256","kid":"`+kid+`","typ":"t+jwt"}` {
			continue
		}
		if !hmac.Equal(decoded[2], mac(derive(secret, "window"), []byte(segments[0]+"."+segments[1]))) {
			return t, false
		}
		var claims Claims
		strict := json.NewDecoder(bytes.NewReader(decoded[1]))
		strict.DisallowUnknownFields()
		if strict.Decode(&claims) != nil {
			return t, false
		}
		again, err := json.Marshal(claims)
		if err != nil || !bytes.Equal(again, decoded[1]) {
			return t, false // not the one spelling
		}
		sum := siphash.New([16]byte(derive(secret, "bind"))).Sum(identity)
		bound := claims.OwnTally == "" || claims.Subject != ""
		if bound && claims.Subject != base64.RawURLEncoding.EncodeToString(sum[:6]) {
			return t, false
		}
		if claims.Policy != p.Name() || claims.Expires <= now.Unix() {
			return t, false
		}
		return believe(p, &claims)
	}
	return t, false
}

// believe turns the numbers of claims into a tally, if they can be meant.
func believe(p *limiter.Policy, claims *Claims) (t Token, ok bool) {
	const lastSecond = 1 << 33
	if claims.Expires > lastSecond || len(claims.Tally)%4 != 0 {
		return t, false
	}
	t.Expires = claims.Expires
	if claims.OwnTally != "" {
		id, err := base64.RawURLEncoding.Strict().DecodeString(claims.OwnTally)
		if err != nil || len(claims.OwnTally) != 8 || len(id) != 6 {
			return Token{}, false
		}
		t.Own = Own{ID: [6]byte(id), Expires: t.Expires, Bound: claims.Subject != ""}
	} else if len(claims.Tally) == 0 {
		return Token{}, false
	}
	for e := claims.Tally; len(e) > 0; e = e[4:] {
		id, age, cur, prev := e[0], e[1], e[2], e[3]
		if id < 0 || id >= 1<<24 || age < -1<<53 || age > 1<<53 || min(cur, prev) < 0 || max(cur, prev) > limiter.MaxQuota {
			return Token{}, false
		}
		for i := range p.Len() {
			if int64(p.ID(i)) != id {
				continue
			}
			unit := int64(p.Limit(i).Window / time.Second)
			at, last := t.Expires/unit-age, lastSecond/unit
			if mark(p.Limit(i)) {
				at, last = t.Expires*1_000_000-age, lastSecond*1_000_000
			}
			if at < 0 || at > last {
				return Token{}, false
			}
			t.Tally[i] = limiter.State{At: at, Cur: uint32(cur), Prev: uint32(prev)}
		}
	}
	return t, true
}

// agree requires that we, the reference and golang-jwt are of one mind about a
// token: we accept it if and only if the reference does, and say the same of it,
// and whatever we accept, golang-jwt accepts.
func agree(t testing.TB, h *Holder, secrets [][]byte, tok string, now time.Time) bool {
	t.Helper()
	got, err := h.Verify(now, tok)
	want, ok := reference(h.codec.format.policy, secrets, h.identity, tok, now)
	if ok != (err == nil) || got != want {
		require.Failf(t, "the reference disagrees", "%q\nwe %v %v\nit %v %v", tok, got, err, want, ok)
	}
	if err == nil {
		_, err := stock(t, h.codec.format.policy.Name(), secrets, tok, now)
		require.NoError(t, err, "golang-jwt refuses %q", tok)
	}
	return ok
}

// TestReference compares over damaged tokens and over damaged payloads that are
// signed. Some of these are good.
func TestReference(t *testing.T) {
	r := random(10)
	secrets := [][]byte{secret("new"), secret("old")}
	accepted := 0
	n := rounds(40)
	for range n {
		c, p := randomCodec(t, r, secrets...)
		h := c.Holder(alice)
		tally, own := randomTally(r, p, now), randomOwn(r, p)
		tok := string(give(&h, own, &tally))
		if tok == "" {
			continue
		}
		for range 60 {
			said := damage(r, payload(t, tok))
			segment := damage(r, base64.RawURLEncoding.EncodeToString([]byte(said)))
			for _, tok := range []string{
				tok, damage(r, tok), sign(c.ring[0], said), sign(c.ring[1], said), sign(c.ring[0], damage(r, said)), signText(c.ring[0], segment),
			} {
				if agree(t, &h, secrets, tok, now) {
					accepted++
				}
			}
		}
	}
	require.Greater(t, accepted, 60*n)
}
