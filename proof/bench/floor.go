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
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A floor is the least program that does for a request, honestly, what the middleware does. It
// reads the address and the token of the client, counts in a sliding window, signs the next token,
// sets the same fields, puts the decision into the request's context, and guards the fields against
// the handler. It knows the last token of a client by a keyed hash beside the client's counts, and
// verifies only others. It has one limit, one key, IPv4 addresses and tokens by header. It is no
// rival: it has no challenges, no networks, and no configuration.
type floor struct {
	next          http.Handler
	quota, window int64  // seconds
	lead          string // the beginning of all tokens; its first block of SHA-256 is absorbed below
	inner, outer  []byte
	subject       cipher.Block // a keyed hash of addresses: one block of AES
	policy        []string     // the value of RateLimit-Policy
	seed          uint64       // of the places of clients in memory
	texts         maphash.Seed // of the hashes of tokens
	stripes       [1024]sync.Mutex
	cells         []cell
	scratch       sync.Pool
	now           func() time.Time
}

// A cell remembers a client: its counts of a window and the one before, and the token with these counts.
type cell struct {
	tag uint32
	counts
	last atomic.Uint64 // the hash of the token, sealed with the counts
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

// Scratch serves one decision, and nothing of it is used again.
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

// A floorRequest outlives the decision: it is the context with the decision, the request with that context, the writer that
// guards the fields, and the values of the fields.
type floorRequest struct {
	context.Context
	http.ResponseWriter
	floorFields
	decision floorDecision
	request  http.Request
	header   bool // was sent
}

// floorFields are the computed values of fields. A refusal keeps only these.
type floorFields struct {
	token, limit, cookie, retry, length [1]string
}

var (
	strict                                = base64.RawURLEncoding.Strict()
	noStore, problemType, accept, noSniff = []string{"no-store"}, []string{"application/problem+json"}, []string{"Accept"}, []string{"nosniff"}
)

func newFloor(o *opening, t terms) http.Handler {
	f := &floor{
		next: served(), quota: int64(t.quota), window: int64(t.window.Seconds()), subject: must(aes.NewCipher(secret()[:16])),
		lead: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"P3O9","typ":"t+jwt"}`)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`+policy+`","sub":"`)),
		policy: []string{`"` + policy + `";q=` + strconv.Itoa(t.quota) + ";w=" + strconv.Itoa(int(t.window.Seconds()))},
		seed:   rand.Uint64(), texts: maphash.MakeSeed(), cells: make([]cell, roomy(t.clients)*6/setSize*setSize), now: time.Now,
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

// absorb returns the state of a hash after a padded key and a text.
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

// authenticate writes the MAC of a text whose first block is absorbed already.
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

	// The counts of the token, and the remembered counts.
	var shown counts
	text, good := "", false
	if lines := r.Header[byHeader]; len(lines) == 1 {
		text = lines[0]
	}
	key := binary.LittleEndian.Uint64(s.block[8:]) ^ f.seed
	at, c, before, found := f.take(key, text, shown, window, into)
	if found == unknown {
		shown, good = f.verify(s, text, subject, unix)
		shown.roll(window)
		at, c, before, found = f.take(key, "", shown, window, into)
	} else if text != "" {
		shown, good = before, true
	}
	allowed := found == hasRoom

	used := int64(c.cur) + (int64(c.prev)*(f.window-into)+f.window-1)/f.window
	room := used - 1 // until one more request fits
	if !allowed {
		room = f.quota - 1
	}
	d := floorDecision{who.Addr(), allowed, max(0, f.quota-used), f.until(c, into, room)}

	// One string holds all values.
	b := s.text[:0]
	if allowed || good && before != shown {
		exp := (int64(c.window) + 2) * f.window
		json := append(s.json[:0], subject[:]...)
		json = strconv.AppendInt(append(json, `","exp":`...), exp, 10)
		json = append(append(json, `,"t":[`+limitID...), '2', ',')
		json = strconv.AppendUint(json, uint64(c.cur), 10)
		json = strconv.AppendUint(append(json, ','), uint64(c.prev), 10)
		b = base64.RawURLEncoding.AppendEncode(append(b, f.lead...), append(json, `]}`...))
		f.authenticate(s, b)
		b = append(append(b, '.'), s.want[:]...)
	}
	token := len(b)
	if good && allowed {
		at.last.Store(c.seal(f.hash(b)))
	}
	b = append(b, `"`+policy+`";r=`...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	b = strconv.AppendInt(append(b, `;t=`...), d.Reset, 10)
	limit := len(b)
	if token > 0 && !good {
		b = append(append(b, cookieName+"="...), b[:token]...)
		b = strconv.AppendInt(append(b, "; Max-Age="...), (int64(c.window)+2)*f.window-unix, 10)
		b = append(b, "; Path=/; HttpOnly; Secure; SameSite=Lax"...)
	}
	cookie := len(b)
	h := w.Header()
	h["Ratelimit-Policy"] = f.policy
	if !allowed {
		wait := max(1, d.Reset)
		wait += rand.Int64N(min(wait/10, 30) + 1)
		body := f.problem(s.json[:0], wait)
		b = strconv.AppendInt(b, wait, 10)
		retry := len(b)
		all := string(strconv.AppendInt(b, int64(len(body)), 10))
		fields := &floorFields{retry: [1]string{all[cookie:retry]}, length: [1]string{all[retry:]}}
		fields.cut(all, token, limit, cookie)
		fields.set(h)
		h["Retry-After"], h["Content-Length"] = fields.retry[:], fields.length[:]
		h["Content-Type"], h["Vary"], h["X-Content-Type-Options"] = problemType, accept, noSniff
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(body) // an error means that the client is gone
		f.scratch.Put(s)
		return
	}
	st := &floorRequest{Context: r.Context(), ResponseWriter: w, decision: d}
	st.cut(string(b), token, limit, cookie)
	f.scratch.Put(s)
	st.set(h)
	st.request = *r.WithContext(st)
	f.next.ServeHTTP(st, &st.request)
}

func (v *floorFields) cut(all string, token, limit, cookie int) {
	v.token[0], v.limit[0], v.cookie[0] = all[:token], all[token:limit], all[limit:cookie]
}

// set sets the fields of every answer.
func (v *floorFields) set(h http.Header) {
	h["Ratelimit"], h["Cache-Control"] = v.limit[:], noStore
	if v.token[0] != "" {
		h[byHeader] = v.token[:]
	}
	if v.cookie[0] != "" {
		h[setCookie] = v.cookie[:]
	}
}

// problem appends the problem details of a refusal.
func (f *floor) problem(b []byte, wait int64) []byte {
	b = append(b, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"Try again in `...)
	n, unit := wait, " second"
	for _, u := range [...]struct {
		seconds int64
		name    string
	}{{24 * 60 * 60, " day"}, {60 * 60, " hour"}, {60, " minute"}} {
		if wait >= 2*u.seconds {
			n, unit = (wait+u.seconds-1)/u.seconds, u.name
			break
		}
	}
	if b = append(strconv.AppendInt(b, n, 10), unit...); n != 1 {
		b = append(b, 's')
	}
	return append(b, `.","violated-policies":["`+policy+`"]}`+"\n"...)
}

// verify returns the counts of a token, if we signed it for the subject and it has not expired.
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
	exp, age, cur, prev := p.after(`","exp":`), p.after(`,"t":[`+limitID), p.after(","), p.after(",")
	p.expect("]}")
	ok = p.ok && len(p.rest) == 0 && exp > unix
	return counts{int32(exp/f.window - age), uint32(cur), uint32(prev)}, ok
}

// A parser reads a payload from the left and remembers whether all of it was as expected.
type parser struct {
	rest []byte
	ok   bool
}

func (p *parser) expect(s string) {
	if p.ok = p.ok && len(p.rest) >= len(s) && string(p.rest[:len(s)]) == s; p.ok {
		p.rest = p.rest[len(s):]
	}
}

// after reads an integer after a text.
func (p *parser) after(s string) (v int64) {
	p.expect(s)
	n := 0
	for n < len(p.rest) && n < 11 && p.rest[n]-'0' <= 9 {
		v = v*10 + int64(p.rest[n]-'0')
		n++
	}
	p.ok = p.ok && n > 0 && v <= 1<<33 && (n == 1 || p.rest[0] != '0')
	p.rest = p.rest[n:]
	return v
}

// roll moves counts to a window. Counts of a later window are dropped.
func (c *counts) roll(window int32) {
	switch c.window {
	case window:
	case window - 1:
		*c = counts{window, 0, c.cur}
	default:
		*c = counts{window, 0, 0}
	}
}

// hash is the keyed hash of a token, without the beginning of all tokens.
func (f *floor) hash(token []byte) uint64 { return maphash.Bytes(f.texts, token[len(f.lead):]) }

// seal binds the hash of a token to its counts.
func (c counts) seal(hash uint64) uint64 {
	hi, lo := bits.Mul64(hash^uint64(c.cur)<<32^uint64(c.prev), 0x9e3779b97f4a7c15^uint64(c.window))
	return hash ^ hi ^ lo
}

// The results of take: no room, room, or an unknown token.
const (
	noRoom = iota
	hasRoom
	unknown
)

// take merges, checks and charges in one step, and returns the counts before and after. The caller must verify a token that is
// unknown.
func (f *floor) take(key uint64, token string, shown counts, window int32, into int64) (at *cell, after, before counts, found int) {
	sets := uint64(len(f.cells) / setSize)
	set := key % sets
	lock := &f.stripes[set%uint64(len(f.stripes))]
	lock.Lock()
	defer lock.Unlock()
	all, tag := f.cells[set*setSize:][:setSize], uint32(key>>32)|1
	at = &all[0]
	for i := range all {
		if all[i].tag == tag {
			at = &all[i]
			break
		}
		if all[i].window < at.window || all[i].window == at.window && all[i].cur < at.cur {
			at = &all[i] // if no cell has the client, it gets the cell whose loss costs least
		}
	}
	if token != "" {
		if at.tag != tag || at.window < window-1 || len(token) < len(f.lead) || token[:len(f.lead)] != f.lead ||
			at.last.Load() != at.seal(maphash.String(f.texts, token[len(f.lead):])) {
			return at, after, before, unknown
		}
	}
	if at.tag != tag {
		at.tag, at.counts = tag, counts{}
	}
	c := at.counts
	c.roll(window)
	c.cur, c.prev = max(c.cur, shown.cur), max(c.prev, shown.prev)
	before = c
	if int64(c.prev)*(f.window-into)+(int64(c.cur)+1)*f.window <= f.quota*f.window {
		c.cur++
		at.counts = c // a refusal leaves nothing behind
		found = hasRoom
	}
	return at, c, before, found
}

// until returns the seconds until no more than room is used, if no request comes.
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

// guard restores the fields, which the handler may have changed, before the header is sent.
func (st *floorRequest) guard() {
	if st.header {
		return
	}
	st.header = true
	h := st.ResponseWriter.Header()
	token, cache := h[byHeader], h["Cache-Control"]
	if len(token) != 1 || &token[0] != &st.token[0] || len(cache) != 1 || cache[0] != noStore[0] {
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
