package middleware

import (
	"errors"
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

	maxCookies = 3000 // of whatever name; what net/http takes at most
)

// shown is what the tokens of a request say.
type shown struct {
	tally    storeless.Tally // merged
	accepted int
	looked   int
	byHeader bool // an accepted token came by the header
	byCookie bool
	err      error // of the last token that was not accepted
}

// read verifies the tokens of r. All that are accepted count, merged: a client
// cannot gain by choosing which to show, and a planted one cannot hide another.
func (e *engine) read(r *http.Request, now time.Time, holder *token.Holder) shown {
	var s shown
	if e.carriage != CookieOnly {
		pieces := 0
		for _, line := range r.Header[TokenHeader] {
			if len(line) > maxLine {
				s.err = token.ErrMalformed
				continue
			}
			for more := true; more && pieces < maxPieces; pieces++ {
				var piece string
				piece, line, more = strings.Cut(line, ",")
				if e.look(&s, strings.Trim(piece, " \t"), now, holder) {
					s.byHeader = true
				}
			}
		}
	}
	if e.carriage != HeaderOnly {
		e.readCookies(&s, r.Header["Cookie"], now, holder)
	}
	return s
}

// readCookies is Request.CookiesNamed for tokens, which need no unquoting; that
// one allocates for every cookie of the name, up to 3000 of them.
func (e *engine) readCookies(s *shown, lines []string, now time.Time, holder *token.Holder) {
	pieces := 0
	for _, line := range lines {
		for more := true; more && pieces < maxCookies; pieces++ {
			var piece string
			piece, line, more = strings.Cut(line, ";")
			value, ok := strings.CutPrefix(strings.Trim(piece, " \t"), e.cookieName)
			if !ok || !strings.HasPrefix(value, "=") {
				continue
			}
			if e.look(s, value[1:], now, holder) {
				s.byCookie = true
			}
		}
	}
}

// look verifies one token and merges it into s, and reports whether it was
// accepted.
func (e *engine) look(s *shown, tok string, now time.Time, holder *token.Holder) bool {
	if tok == "" || s.looked == maxTokens {
		return false
	}
	t, err := holder.Verify(tok, now)
	if err != nil {
		s.err = err
		if !errors.Is(err, token.ErrForeign) && !errors.Is(err, token.ErrMalformed) {
			s.looked++ // it cost a MAC
		}
		return false
	}
	s.looked++
	if s.accepted++; s.accepted == 1 {
		s.tally = t.Tally
	} else {
		s.tally = e.base.policy.Merge(now, s.tally, t.Tally)
	}
	return true
}

// channels says where the answer goes.
func (e *engine) channels(s *shown) (header, cookie bool) {
	switch e.carriage {
	case HeaderOnly:
		return true, false
	case CookieOnly:
		return false, true
	case Either:
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
