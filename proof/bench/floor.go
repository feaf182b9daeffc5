// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"encoding"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// A floor is the least program that does for a request, honestly, what the middleware does: it
// reads the address, verifies the token of the client, merges it with what it remembers, counts
// in a sliding window, signs the next token, sets the same fields, puts the decision into the
// request's context, and sees to it that what the handler does to the fields does not last. It
// was written for that alone: one limit, one key, IPv4 addresses, tokens by header. It is no
// rival: it has no challenges, no networks, and no way to change what it was told.
type floor struct {
	next          http.Handler
	quota, window int64  // seconds
	lead          string // what all tokens begin with; a block of SHA-256 of it is absorbed below
	inner, outer  []byte
	subject       cipher.Block // a keyed hash of addresses: one block of AES
	policy        []string     // the value of a field
	seed          uint64       // of where clients lie in memory
	stripes       [1024]sync.Mutex
	cells         []cell
	scratch       sync.Pool
	now           func() time.Time
}

// A cell remembers one client. Counts are of a window and the one before.
type cell struct {
	tag uint32
	counts
}

type counts struct {
	window    int32 // its number
	cur, prev uint32
}

const (
	setSize   = 16
	absorbed  = sha256.BlockSize
	signature = 43 // characters
	limitID   = `422800,`
)

// Scratch serves one decision, and keeps nothing of it.
type scratch struct {
	hash  hash.Hash
	state encoding.BinaryUnmarshaler // hash again
	block [aes.BlockSize]byte
	text  [512]byte
	json  [256]byte
	sum   [sha256.Size]byte
	want  [signature]byte
}

// A handler may ask for a floorDecision.
type floorDecision struct {
	Address   netip.Addr
	Allowed   bool
	Remaining int64
	Reset     int64 // seconds
}

type floorKey struct{}

// A floorRequest is all that outlives the decision: the context with the decision in it, the
// request with that context, the writer that guards the fields, and their values.
type floorRequest struct {
	context.Context
	http.ResponseWriter
	decision floorDecision
	request  http.Request
	header   bool // has gone
	cookie   bool // the token is in one, too
	values   [3]string
}

var strict = base64.RawURLEncoding.Strict()

var noStore = []string{"no-store"}

func newFloor(o *opening, t terms) http.Handler {
	f := &floor{
		next: served(), quota: int64(t.quota), window: int64(t.window.Seconds()), subject: must(aes.NewCipher(secret()[:16])),
		lead: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"P3O9","typ":"t+jwt"}`)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`+policy+`","sub":"`)),
		policy: []string{`"` + policy + `";q=` + strconv.Itoa(t.quota) + ";w=" + strconv.Itoa(int(t.window.Seconds()))},
		seed:   rand.Uint64(), cells: make([]cell, roomy(t.clients)*6/setSize*setSize), now: time.Now,
	}
	if o.now != nil {
		f.now = o.now
	}
	f.inner, f.outer = absorb(0x36, f.lead[:absorbed]), absorb(0x5c, "")
	f.scratch.New = func() any {
		h := sha256.New()
		return &scratch{hash: h, state: h.(encoding.BinaryUnmarshaler)}
	}
	return f
}

// absorb returns the state of a hash that has read a padded key and a text.
func absorb(pad byte, text string) []byte {
	var block [sha256.BlockSize]byte
	copy(block[:], secret())
	for i := range block {
		block[i] ^= pad
	}
	h := sha256.New()
	h.Write(block[:])
	h.Write([]byte(text))
	return must(h.(encoding.BinaryMarshaler).MarshalBinary())
}

// authenticate writes the MAC of a text, whose first block is absorbed already.
func (f *floor) authenticate(s *scratch, text []byte) {
	for _, part := range []struct{ state, text []byte }{{f.inner, text[absorbed:]}, {f.outer, s.sum[:]}} {
		check(s.state.UnmarshalBinary(part.state))
		s.hash.Write(part.text)
		s.hash.Sum(s.sum[:0])
	}
	base64.RawURLEncoding.Encode(s.want[:], s.sum[:])
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := f.scratch.Get().(*scratch)
	who, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !who.Addr().Is4() {
		http.Error(w, "an address of IPv4 is asked for", http.StatusInternalServerError)
		return
	}
	unix := f.now().Unix()
	window, into := int32(unix/f.window), unix%f.window
	a := who.Addr().As4()
	s.block = [aes.BlockSize]byte{}
	copy(s.block[:], a[:])
	f.subject.Encrypt(s.block[:], s.block[:])
	var subject [8]byte
	base64.RawURLEncoding.Encode(subject[:], s.block[:6])

	// What the token says, and what is remembered.
	var shown counts
	good := false
	if lines := r.Header[byHeader]; len(lines) == 1 {
		shown, good = f.verify(s, lines[0], subject, unix)
	}
	shown.roll(window)
	c, remembered, allowed := f.take(binary.LittleEndian.Uint64(s.block[8:])^f.seed, shown, window, into)

	used := int64(c.cur) + (int64(c.prev)*(f.window-into)+f.window-1)/f.window
	room := used - 1 // when is there one more?
	if !allowed {
		room = f.quota - 1
	}
	st := &floorRequest{Context: r.Context(), ResponseWriter: w}
	st.decision = floorDecision{who.Addr(), allowed, max(0, f.quota-used), f.until(c, into, room)}

	// One string has all values.
	text := append(s.text[:0], f.lead...)
	if allowed || good && remembered != shown {
		exp := (int64(c.window) + 2) * f.window
		json := append(s.json[:0], subject[:]...)
		json = strconv.AppendInt(append(json, `","exp":`...), exp, 10)
		json = append(append(json, `,"t":[`+limitID...), '2', ',')
		json = strconv.AppendUint(json, uint64(c.cur), 10)
		json = strconv.AppendUint(append(json, ','), uint64(c.prev), 10)
		text = base64.RawURLEncoding.AppendEncode(text, append(json, `]}`...))
		f.authenticate(s, text)
		text = append(append(text, '.'), s.want[:]...)
	} else {
		text = text[:0]
	}
	token := len(text)
	text = append(text, `"`+policy+`";r=`...)
	text = strconv.AppendInt(text, st.decision.Remaining, 10)
	text = strconv.AppendInt(append(text, `;t=`...), st.decision.Reset, 10)
	limit := len(text)
	if token > 0 && !good {
		st.cookie = true
		text = append(append(text, cookieName+"="...), text[:token]...)
		text = strconv.AppendInt(append(text, "; Max-Age="...), (int64(c.window)+2)*f.window-unix, 10)
		text = append(text, "; Path=/; HttpOnly; Secure; SameSite=Lax"...)
	}
	all := string(text)
	f.scratch.Put(s)
	st.values = [3]string{all[:token], all[token:limit], all[limit:]}

	h := w.Header()
	h["Ratelimit-Policy"], h["Ratelimit"] = f.policy, st.values[1:2:2]
	st.set(h)
	if !allowed {
		f.refuse(w, st)
		return
	}
	st.request = *r.WithContext(st)
	f.next.ServeHTTP(st, &st.request)
}

// set sets the fields that no handler may lose.
func (st *floorRequest) set(h http.Header) {
	h["Cache-Control"] = noStore
	if st.values[0] != "" {
		h[byHeader] = st.values[0:1:1]
	}
	if st.cookie {
		h[setCookie] = st.values[2:3:3]
	}
}

func (f *floor) refuse(w http.ResponseWriter, st *floorRequest) {
	wait := st.decision.Reset
	wait += rand.Int64N(min(wait/10, 30) + 1)
	body := []byte(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429}`)
	h := w.Header()
	h["Retry-After"] = []string{strconv.FormatInt(max(1, wait), 10)}
	h["Content-Type"], h["Vary"], h["X-Content-Type-Options"] = problemType, accept, noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(body) // the client is gone if it fails
}

var problemType, accept, noSniff = []string{"application/problem+json"}, []string{"Accept"}, []string{"nosniff"}

// verify returns what a token says of the subject, if it is one of ours and in force.
func (f *floor) verify(s *scratch, token string, subject [8]byte, unix int64) (c counts, ok bool) {
	payload := len(token) - signature - 1
	if payload <= len(f.lead) || len(token) > len(s.text) || token[:absorbed] != f.lead[:absorbed] || token[payload] != '.' {
		return c, false
	}
	text := s.text[:copy(s.text[:], token)]
	f.authenticate(s, text[:payload])
	if subtle.ConstantTimeCompare(s.want[:], text[payload+1:]) != 1 || token[:len(f.lead)] != f.lead {
		return c, false
	}
	n, err := strict.Decode(s.json[:], text[len(f.lead):payload])
	p := parser{s.json[:n], err == nil}
	p.expect(string(subject[:]))
	p.expect(`","exp":`)
	exp := p.integer()
	p.expect(`,"t":[` + limitID)
	age := p.integer()
	p.expect(",")
	cur := p.integer()
	p.expect(",")
	prev := p.integer()
	p.expect("]}")
	ok = p.ok && len(p.rest) == 0 && exp > unix
	return counts{int32(exp/f.window - age), uint32(cur), uint32(prev)}, ok
}

// A parser eats a payload from the left and remembers whether it ever choked.
type parser struct {
	rest []byte
	ok   bool
}

func (p *parser) expect(s string) {
	if p.ok = p.ok && len(p.rest) >= len(s) && string(p.rest[:len(s)]) == s; p.ok {
		p.rest = p.rest[len(s):]
	}
}

func (p *parser) integer() (v int64) {
	n := 0
	for n < len(p.rest) && n < 11 && p.rest[n]-'0' <= 9 {
		v = v*10 + int64(p.rest[n]-'0')
		n++
	}
	p.ok = p.ok && n > 0 && v <= 1<<33 && (n == 1 || p.rest[0] != '0')
	p.rest = p.rest[n:]
	return v
}

// roll brings counts to a window. Those of one to come are none.
func (c *counts) roll(window int32) {
	switch c.window {
	case window:
	case window - 1:
		*c = counts{window, 0, c.cur}
	default:
		*c = counts{window, 0, 0}
	}
}

// take merges, checks and charges in one step, and returns what is remembered before and after.
func (f *floor) take(key uint64, shown counts, window int32, into int64) (after, before counts, allowed bool) {
	sets := uint64(len(f.cells) / setSize)
	set := key % sets
	lock := &f.stripes[set%uint64(len(f.stripes))]
	lock.Lock()
	defer lock.Unlock()
	all, tag, at := f.cells[set*setSize:][:setSize], uint32(key>>32)|1, 0
	for i := range all {
		if all[i].tag == tag {
			at = i
			break
		}
		if all[i].window < all[at].window || all[i].window == all[at].window && all[i].cur < all[at].cur {
			at = i // the one that is missed least, where the client is in none
		}
	}
	if all[at].tag != tag {
		all[at] = cell{tag: tag}
	}
	c := all[at].counts
	c.roll(window)
	c.cur, c.prev = max(c.cur, shown.cur), max(c.prev, shown.prev)
	before = c
	if int64(c.prev)*(f.window-into)+(int64(c.cur)+1)*f.window <= f.quota*f.window {
		c.cur++
		all[at].counts = c // a refusal leaves nothing behind
		allowed = true
	}
	return c, before, allowed
}

// until returns in how many seconds no more than room is used, if no request comes.
func (f *floor) until(c counts, into, room int64) int64 {
	cur, prev := int64(c.cur), int64(c.prev)
	if cur <= room && prev > 0 {
		return max(0, f.window-(room-cur)*f.window/prev-into) // in this window
	}
	if cur == 0 {
		return 0
	}
	return f.window - into + f.window - max(0, room)*f.window/cur
}

func (st *floorRequest) Value(key any) any {
	if key == (floorKey{}) {
		return &st.decision
	}
	return st.Context.Value(key)
}

// guard sets again, before the header goes, what the handler may have lost.
func (st *floorRequest) guard() {
	if st.header {
		return
	}
	st.header = true
	h := st.ResponseWriter.Header()
	token, cache := h[byHeader], h["Cache-Control"]
	if len(token) != 1 || token[0] != st.values[0] || len(cache) != 1 || cache[0] != noStore[0] {
		st.set(h)
	}
}

func (st *floorRequest) WriteHeader(status int) {
	st.guard()
	st.ResponseWriter.WriteHeader(status)
}

func (st *floorRequest) Write(b []byte) (int, error) {
	st.guard()
	return st.ResponseWriter.Write(b)
}

// Unwrap serves [http.ResponseController].
func (st *floorRequest) Unwrap() http.ResponseWriter { return st.ResponseWriter }
