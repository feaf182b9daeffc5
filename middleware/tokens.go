// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"errors"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// How much of what a client shows is looked at. An honest client shows one
// token, or two where a header and a cookie disagree; after a rotation or with
// parallel tabs a few more.
const (
	maxTokens = 4       // tokens of this policy, each worth a MAC
	maxProofs = 4       // proofs: one is enough for our clients, and one for each policy of a stack for others
	maxPieces = 32      // pieces between commas, each worth a glance
	maxLine   = 8 << 10 // bytes of a line; a longer one is not a list of tokens
)

// readTokens verifies the tokens of a request, and sets apart what other cookies show. All that are
// accepted count: a client cannot gain by choosing which to show, and a planted one cannot
// hide another.
func (e *engine) readTokens(now time.Time, q *question, who *subject, shown *credentials) {
	shown.outside = q.r == nil
	if !shown.outside {
		shown.fields = q.r.Header
	}
	if e.carriage != CookieOnly || shown.outside {
		pieces := 0
		for _, line := range q.tokens() {
			if len(line) > maxLine {
				shown.err = token.ErrMalformed
				continue
			}
			for more := true; more && pieces < maxPieces; pieces++ {
				var piece string
				piece, line, more = strings.Cut(line, ",")
				if e.readToken(now, who, shown, httpfield.Trim(piece)) {
					shown.byHeader = true
				}
			}
		}
	}
	if e.carriage == HeaderOnly || shown.outside {
		return
	}
	if lines := q.r.Header["Cookie"]; len(lines) > 0 {
		for suffix, value := range httpfield.Cookies(lines, e.cookieName, e.cookieSuffixes...) {
			switch {
			case strings.HasPrefix(suffix, proofSuffix) && len(shown.proofCookies) < maxProofs:
				shown.proofCookies = append(shown.proofCookies, value)
			case suffix == roomSuffix && len(shown.roomCookies) < maxTokens:
				shown.roomCookies = append(shown.roomCookies, value)
			case suffix == "" && e.readToken(now, who, shown, value):
				shown.byCookie = true
			case strings.HasPrefix(suffix, thingSuffix) && who.mark != "":
				if tok, ours := strings.CutPrefix(value, who.mark); ours && e.readToken(now, who, shown, tok) {
					shown.byCookie = true
				}
			}
		}
	}
}

// readToken verifies one token, notes what it says, and reports whether it was
// accepted.
func (e *engine) readToken(now time.Time, who *subject, shown *credentials, text string) bool {
	if text == "" || shown.macs == maxTokens {
		return false
	}
	t, err := who.holder.Verify(now, text)
	own := t.Own.Expires != 0
	if err == nil && own && !e.acceptsOwn(now, who, &t.Own) {
		err = token.ErrHolder
	}
	if err != nil {
		shown.err = err
		if !errors.Is(err, token.ErrForeign) && !errors.Is(err, token.ErrMalformed) {
			shown.macs++
		}
		return false
	}
	shown.macs++
	shown.accepted++
	switch {
	case own:
		shown.addOwn(now, e.base.pass.policy, t.Own, t.Tally)
	case shown.shared == storeless.Tally{}:
		shown.shared = t.Tally
	default:
		shown.shared = e.merged(now, shown.shared, t.Tally)
	}
	return true
}

// acceptsOwn reports whether an own tally may be charged for this request. Where
// nothing is sold, or for longer than anything lives that was ever sold here, a thief of the key made it.
// The thief must not get more than that takes.
func (e *engine) acceptsOwn(now time.Time, who *subject, own *token.Own) bool {
	longest := now.Add(e.longestPass + time.Minute).Unix()
	return e.sellsTallies() && own.Expires <= longest && (own.Bound || !e.bindsOwn(who.id))
}
