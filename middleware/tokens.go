// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/httpfield"
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
func (q *call) readTokens() {
	q.shown.outside = q.r == nil
	if !q.shown.outside {
		q.shown.fields = q.r.Header
	}
	if q.transport.kind != CookieOnly || q.shown.outside {
		pieces := 0
		for _, line := range q.tokenLines() {
			if len(line) > maxLine {
				q.shown.fault = tokenMalformed
				continue
			}
			for end := 0; end >= 0 && pieces < maxPieces; pieces++ {
				piece := line
				if end = strings.IndexByte(line, ','); end >= 0 { // strings.Cut takes a third more
					piece, line = line[:end], line[end+1:]
				}
				if q.readToken(httpfield.Trim(piece)) {
					q.shown.byHeader = true
				}
			}
		}
	}
	if q.transport.kind == HeaderOnly || q.shown.outside {
		return
	}
	if lines := q.r.Header["Cookie"]; len(lines) > 0 {
		for suffix, value := range httpfield.Cookies(lines, q.transport.cookieName, q.transport.cookieSuffixes...) {
			switch {
			case strings.HasPrefix(suffix, proofSuffix) && len(q.shown.proofCookies) < maxProofs:
				q.shown.proofCookies = append(q.shown.proofCookies, value)
			case suffix == roomSuffix && len(q.shown.roomCookies) < maxTokens:
				q.shown.roomCookies = append(q.shown.roomCookies, value)
			case suffix == "" && q.readToken(value):
				q.shown.byCookie = true
			case strings.HasPrefix(suffix, scopeSuffix) && q.who.cookiePrefix != "":
				if tok, ours := strings.CutPrefix(value, q.who.cookiePrefix); ours && q.readToken(tok) {
					q.shown.byCookie = true
				}
			}
		}
	}
}

// readToken verifies one token, notes what it says, and reports whether it was
// accepted. What is counted and told of it decides nothing.
func (q *call) readToken(text string) bool {
	if text == "" || q.shown.macs == maxTokens {
		return false
	}
	rest, err := q.codec.Glance(text)
	if err == token.ErrForeign {
		q.shown.fault = tokenForeign
		return false
	}
	var t token.Token
	garbage := q.shown.fault != tokenSound && q.shown.fault != tokenForeign // tokens of a stack's other policies come along
	if err == nil && (garbage || !q.knows(rest, &t.Tally)) {
		t, err = q.who.holder.Verify(q.at, text)
	}
	fault, own := faultOf(err), t.Own.Expires != 0
	if fault == tokenSound && own {
		fault = q.faultOfOwn(&t.Own)
	}
	if fault.signed() {
		q.shown.macs++
	}
	var ahead time.Duration
	if err == nil {
		ahead = q.base.policy.Ahead(q.at, &t.Tally)
	}
	if !q.dry {
		q.tokens.note(fault, ahead > 0)
	}
	switch {
	case ahead > 0:
		q.checks.clockAhead(q.at, ahead)
	case fault == tokenSecret:
		q.checks.otherSecret(q.at, q.who.id, q.codec)
	}
	if fault != tokenSound {
		q.shown.fault = fault
		return false
	}
	q.shown.accepted++
	switch {
	case own:
		q.shown.addOwn(q.at, q.base.pass.policy, t.Own, t.Tally)
	case q.shown.shared == limiter.Tally{}:
		q.shown.shared = t.Tally
	default:
		q.shown.shared = q.merged(q.at, q.shown.shared, t.Tally)
	}
	return true
}

// knows reports whether rest belongs to the token that the client was sent last, and what that says. Nothing of it is
// read: it was signed by this engine for this client, so all that could have become of it since is that it has
// expired. Own tallies are not known by sight, because only the token says whose they are.
func (q *call) knows(rest string, says *limiter.Tally) bool {
	return q.tokenCache != nil && rest != "" && q.tokenCache.Knows(q.base.policy, q.who.key, rest, says) && q.carried.Expires(says) > q.at.Unix()
}

// faultOfOwn returns why an own tally may not be charged for this request. Where
// nothing is sold, or for longer than anything lives that was ever sold here, a thief of the key made it, or
// an instance that another clock or PassTime holds for.
// The thief must not get more than that takes.
func (q *call) faultOfOwn(own *token.Own) tokenFault {
	if !q.challenge.sellsTallies() {
		return tokenHolder
	}
	switch longest := q.at.Add(q.challenge.longestPass + time.Minute).Unix(); {
	case own.Expires > longest:
		return tokenLate
	case !own.Bound && q.challenge.bindsOwn(q.who.id):
		return tokenHolder
	}
	return tokenSound
}
