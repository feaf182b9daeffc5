package middleware

import (
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// How much of what a client shows is looked at. An honest client shows one
// token, or two where a header and a cookie disagree; after a rotation or with
// parallel tabs a few more.
const (
	maxTokens = 4       // tokens of this policy, each worth a MAC
	maxPieces = 32      // pieces between commas, each worth a glance
	maxLine   = 8 << 10 // bytes of a line; a longer one is not a list of tokens

	// maxCookieBytes is how much of the Cookie lines is searched, all together.
	// Browsers send no more of any site that works: the usual servers and proxies
	// refuse 8 KiB. Whoever sends more shows no token, and the memory counts.
	maxCookieBytes = 16 << 10
)

// shown is what the tokens of a request say, those of a family merged.
type shown struct {
	shared   storeless.Tally
	own      []ownTally
	accepted int
	looked   int
	byHeader bool // an accepted token came by the header
	byCookie bool
	err      error // of the last token that was not accepted
}

type ownTally struct {
	own   token.Own
	tally storeless.Tally
}

// add merges what a token says into the tally of its own family, and returns the
// family's place.
func (s *shown) add(e *engine, now time.Time, own token.Own, t storeless.Tally) int {
	for i := range s.own {
		if o := &s.own[i]; o.own.ID == own.ID {
			o.tally = e.carried.Merge(now, o.tally, t)
			return i
		}
	}
	s.own = append(s.own, ownTally{own, t})
	return len(s.own) - 1
}

// read verifies the tokens of r. All that are accepted count: a client cannot
// gain by choosing which to show, and a planted one cannot hide another.
func (e *engine) read(q *inquiry, r *http.Request) {
	if e.carriage != CarryCookie {
		pieces := 0
		for _, line := range r.Header[TokenHeader] {
			if len(line) > maxLine {
				q.shown.err = token.ErrMalformed
				continue
			}
			for more := true; more && pieces < maxPieces; pieces++ {
				var piece string
				piece, line, more = strings.Cut(line, ",")
				if e.look(q, strings.Trim(piece, " \t")) {
					q.shown.byHeader = true
				}
			}
		}
	}
	if e.carriage != CarryHeader {
		for value := range cookies(r.Header["Cookie"], e.cookieName) {
			if e.look(q, value) {
				q.shown.byCookie = true
			}
		}
	}
}

// cookies returns the values of the cookies of a name, which need no unquoting.
// It is what Request.CookiesNamed is, but for its cost: that one cuts every line
// into pieces first, and allocates for each of the name.
func cookies(lines []string, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		left, glances := maxCookieBytes, 0
		for _, line := range lines {
			if left -= len(line); left < 0 {
				return
			}
			for at := 0; glances < maxPieces; {
				i := strings.Index(line[at:], name)
				if i < 0 {
					break
				}
				before := strings.TrimRight(line[:at+i], " \t")
				at += i + len(name)
				if before != "" && !strings.HasSuffix(before, ";") || !strings.HasPrefix(line[at:], "=") {
					continue // part of another name, or of a value: anybody's to plant, and no glance
				}
				glances++
				value, _, _ := strings.Cut(line[at+1:], ";")
				if !yield(strings.TrimRight(value, " \t")) {
					return
				}
			}
		}
	}
}

// look verifies one token and takes note of it, and reports whether it was
// accepted.
func (e *engine) look(q *inquiry, tok string) bool {
	s := &q.shown
	if tok == "" || s.looked == maxTokens {
		return false
	}
	t, err := q.holder.Verify(tok, q.now)
	own := !t.Own.IsZero()
	if err == nil && own && !e.believes(q, &t.Own) {
		err = token.ErrHolder
	}
	if err != nil {
		s.err = err
		if !errors.Is(err, token.ErrForeign) && !errors.Is(err, token.ErrMalformed) {
			s.looked++ // it cost a MAC
		}
		return false
	}
	s.looked++
	s.accepted++
	switch {
	case own:
		s.add(e, q.now, t.Own, t.Tally)
	case s.shared == storeless.Tally{}:
		s.shared = t.Tally
	default:
		s.shared = e.carried.Merge(q.now, s.shared, t.Tally)
	}
	return true
}

// believes reports whether an own family may be charged for this request. Where
// nothing is sold, or for longer than anything sold lives, it was made by a thief
// of the key; he must not get more than that takes.
func (e *engine) believes(q *inquiry, own *token.Own) bool {
	longest := q.now.Add(token.OwnLife(e.base.policy) + time.Minute).Unix()
	return e.sells() && own.Expires <= longest && (own.Bound || !e.boundTo(&q.id))
}

// channels says where the answer goes.
func (e *engine) channels(s *shown) (header, cookie bool) {
	switch e.carriage {
	case CarryHeader:
		return true, false
	case CarryCookie:
		return false, true
	case CarryEither:
		if s.accepted > 0 {
			return s.byHeader, s.byCookie
		}
	}
	return true, true
}

// cookieParts returns the name of the cookie and what stands after its Max-Age.
func cookieParts(cfg *Config) (name, attributes string) {
	name = "tallystick-" + cfg.Policy
	switch {
	case cfg.InsecureCookie:
		return name, "; Path=/; HttpOnly; SameSite=Lax"
	case cfg.EmbeddedCookie:
		attributes = "; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"
	default:
		// Not Strict: a first visit by a link from elsewhere would hide the
		// cookie, and the client would seem to be new.
		attributes = "; Path=/; HttpOnly; Secure; SameSite=Lax"
	}
	return "__Host-" + name, attributes
}
