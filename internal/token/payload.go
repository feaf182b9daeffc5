// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/internal/limiter"
)

type field struct {
	id      uint32
	text    string // id and a comma
	seconds int64  // the window
	mark    bool   // GCRA: the state is a time mark
	latest  int64  // the largest State.At that a payload may say
}

// A format is the form that the payloads of a policy have.
type format struct {
	policy *limiter.Policy
	fields []field
	lead   string // what every payload goes on with after the fixed start of its token, encoded
	prefix string // what comes after that, up to the names of the holder

	// A payload of a shared tally goes on with its holder, up to the digits of exp:
	start     [startSize]byte // what it says, with room for the subject
	subjectAt int             // where that begins
	startLen  int             // of as much of it as whole groups of base64 hold, encoded
	startRest string          // and what is left over
}

func newFormat(p *limiter.Policy) format {
	fm := format{policy: p, fields: fieldsOf(p)}
	_, fm.lead, fm.prefix = beginning(p.Name())
	start := fm.prefix + beforeSubject + strings.Repeat(" ", subjectLen) + beforeExpires
	whole := copy(fm.start[:], start) / 3 * 3
	fm.subjectAt = len(fm.prefix + beforeSubject)
	fm.startLen, fm.startRest = base64.RawURLEncoding.EncodedLen(whole), start[whole:]
	return fm
}

func fieldsOf(p *limiter.Policy) []field {
	fields := make([]field, p.Len())
	for i := range fields {
		l := p.Limit(i)
		f := &fields[i]
		f.id = p.ID(i)
		f.text = strconv.Itoa(int(f.id)) + ","
		f.seconds = int64(l.Window.Seconds())
		f.mark = l.Algorithm == limiter.TokenBucket || l.Algorithm == limiter.LeakyBucket
		f.latest = f.at(maxExpires, 0)
	}
	return fields
}

// age says how long before exp a state was, in windows or microseconds: a
// number of a digit or two where the state itself would take ten.
func (f *field) age(exp int64, s *limiter.State) int64 {
	if f.mark {
		return exp*1_000_000 - s.At
	}
	return exp/f.seconds - s.At
}

// at is the inverse of age.
func (f *field) at(exp, age int64) int64 {
	if f.mark {
		return exp*1_000_000 - age
	}
	return exp/f.seconds - age
}

// blank reports whether s has nothing to say.
func (f *field) blank(s *limiter.State) bool {
	return s.Cur == 0 && s.Prev == 0 && (!f.mark || s.At == 0)
}

// The names of the holder, and what stands around them.
const (
	beforeSubject = `sub":"`
	beforeID      = `fam":"`
	afterName     = `","`
	beforeExpires = `","exp":`
)

// startSize is the longest start of a shared tally's payload, and startMax what it is at most
// when it is encoded.
const (
	startSize = 2 + len(beforeSubject) + subjectLen + len(beforeExpires)
	startMax  = startSize / 3 * 4
)

// encodeStart encodes to dst as much of a start as whole groups hold.
func (fm *format) encodeStart(dst, subject []byte) {
	start := fm.start
	copy(start[fm.subjectAt:], subject)
	base64.RawURLEncoding.Encode(dst, start[:fm.startLen/4*3])
}

// appendOwnStart writes the JSON of an own tally's claims up to the digits of exp, except
// what stands encoded in lead.
func (fm *format) appendOwnStart(b, subject []byte, own Own) []byte {
	b = append(b, fm.prefix...)
	if own.Bound {
		b = append(b, beforeSubject...)
		b = append(b, subject...)
		b = append(b, afterName...)
	}
	b = append(b, beforeID...)
	b = base64.RawURLEncoding.AppendEncode(b, own.ID[:])
	return append(b, beforeExpires...)
}

// appendCounts writes the rest, from the digits of exp on. Together they are the same bytes
// that encoding/json writes of [Claims].
func (fm *format) appendCounts(b []byte, exp int64, t *limiter.Tally) []byte {
	b = strconv.AppendInt(b, exp, 10)
	b = append(b, `,"t":[`...)
	sep := false
	for i := range fm.fields {
		f, s := &fm.fields[i], &t[i]
		if f.blank(s) {
			continue
		}
		if sep {
			b = append(b, ',')
		}
		sep = true
		b = append(b, f.text...)
		b = strconv.AppendInt(b, f.age(exp, s), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(s.Cur), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(s.Prev), 10)
	}
	return append(b, `]}`...)
}

// Ranges of what a payload may say. They keep every product of a decision far
// from overflow, even if an attacker holds the key.
const (
	maxExpires = 1 << 33 // the year 2242
	maxAge     = 1 << 53
)

// parseStart reads what a payload says before the digits of exp: its holder, and its own tally
// if there is one. subject is nil if the token names none.
func (fm *format) parseStart(p *parser, t *Token) (subject []byte, own bool) {
	p.expect(fm.prefix)
	if p.next('s') {
		p.expect(beforeSubject)
		subject = p.take(subjectLen)
		if p.startsWith(beforeExpires) {
			p.expect(beforeExpires)
			return subject, false
		}
		p.expect(afterName)
	}
	p.expect(beforeID)
	n, err := strict.Decode(t.Own.ID[:], p.take(ownIDLen))
	p.ok = p.ok && err == nil && n == len(t.Own.ID)
	p.expect(beforeExpires)
	t.Own.Bound = subject != nil
	return subject, true
}

// parseCounts reads the rest. Together they read what we write and nothing else: the payload
// has passed its MAC, so any other form was signed by another program. Entries of limits that the policy does not have are
// skipped.
func (fm *format) parseCounts(p *parser, t *Token, own bool) (ok bool) {
	t.Expires = p.integer(1, maxExpires)
	if own {
		t.Own.Expires = t.Expires
	}
	p.expect(`,"t":[`)
	p.ok = p.ok && (own || !p.next(']')) // a shared tally that has counted nothing has no token
	for n := 0; p.ok && !p.next(']'); n++ {
		if n > 0 {
			p.expect(",")
		}
		id := p.integer(0, 1<<24-1)
		p.expect(",")
		age := p.integer(-maxAge, maxAge)
		p.expect(",")
		cur := p.integer(0, limiter.MaxQuota)
		p.expect(",")
		prev := p.integer(0, limiter.MaxQuota)
		for i := range fm.fields {
			if f := &fm.fields[i]; f.id == uint32(id) {
				at := f.at(t.Expires, age)
				p.ok = p.ok && at >= 0 && at <= f.latest
				t.Tally[i] = limiter.State{At: at, Cur: uint32(cur), Prev: uint32(prev)}
			}
		}
	}
	p.expect("]}")
	return p.ok && len(p.rest) == 0
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

func (p *parser) startsWith(s string) bool {
	return len(p.rest) >= len(s) && string(p.rest[:len(s)]) == s
}

func (p *parser) next(c byte) bool { return len(p.rest) > 0 && p.rest[0] == c }

func (p *parser) take(n int) []byte {
	if p.ok = p.ok && len(p.rest) >= n; !p.ok {
		return nil
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// integer reads a canonical decimal within [low, high]: no plus, no leading
// zero, no minus zero, no fraction, no exponent.
func (p *parser) integer(low, high int64) (v int64) {
	negative := p.next('-')
	if negative {
		p.rest = p.rest[1:]
	}
	n := 0
	for _, c := range p.rest[:min(len(p.rest), 19)] {
		if c -= '0'; c > 9 {
			break
		}
		v = v*10 + int64(c)
		n++
	}
	canonical := n == 1 && !(negative && v == 0) || n > 1 && n < 19 && p.rest[0] != '0'
	p.rest = p.rest[n:]
	if negative {
		v = -v
	}
	p.ok = p.ok && canonical && v >= low && v <= high
	return v
}
