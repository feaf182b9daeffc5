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
func (e *engine) readTokens(now time.Time, q *question, who *subject, shown *credentials) {
	shown.outside = q.r == nil
	if !shown.outside {
		shown.fields = q.r.Header
	}
	if e.carriage.transport != CookieOnly || shown.outside {
		pieces := 0
		for _, line := range q.tokens() {
			if len(line) > maxLine {
				shown.fault = tokenMalformed
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
	if e.carriage.transport == HeaderOnly || shown.outside {
		return
	}
	if lines := q.r.Header["Cookie"]; len(lines) > 0 {
		for suffix, value := range httpfield.Cookies(lines, e.carriage.cookieName, e.carriage.cookieSuffixes...) {
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
// accepted. What is counted and told of it decides nothing.
func (e *engine) readToken(now time.Time, who *subject, shown *credentials, text string) bool {
	if text == "" || shown.macs == maxTokens {
		return false
	}
	var (
		t   token.Token
		err error
	)
	garbage := shown.fault != tokenSound && shown.fault != tokenForeign // tokens of a stack's other policies come along
	if garbage || !e.knows(now, who, text, &t.Tally) {
		if e.codec.Foreign(text) {
			shown.fault = tokenForeign
			return false
		}
		t, err = who.holder.Verify(now, text)
	}
	fault, own := faultOf(err), t.Own.Expires != 0
	if fault == tokenSound && own {
		fault = e.challenge.faultOfOwn(now, who, &t.Own)
	}
	if fault.signed() {
		shown.macs++
	}
	var ahead time.Duration
	if err == nil {
		ahead = e.base.policy.Ahead(now, &t.Tally)
	}
	e.tokens.note(fault, ahead > 0)
	switch {
	case ahead > 0:
		e.checks.clockAhead(now, ahead)
	case fault == tokenSecret:
		e.checks.otherSecret(now, who.id, e.codec)
	}
	if fault != tokenSound {
		shown.fault = fault
		return false
	}
	shown.accepted++
	switch {
	case own:
		shown.addOwn(now, e.base.pass.policy, t.Own, t.Tally)
	case shown.shared == limiter.Tally{}:
		shown.shared = t.Tally
	default:
		shown.shared = e.merged(now, shown.shared, t.Tally)
	}
	return true
}

// knows reports whether text is the token that who was sent last, and what it says. Nothing of it is read: it was
// signed by this engine for this client, so all that could have become of it since is that it has expired. Own
// tallies are not known by sight, because only the token says whose they are.
func (e *engine) knows(now time.Time, who *subject, text string, says *limiter.Tally) bool {
	if e.sight == nil {
		return false
	}
	rest, ok := who.holder.Rest(text)
	return ok && e.sight.Knows(e.base.policy, who.key, rest, says) && e.carried.Expires(*says) > now.Unix()
}

// faultOfOwn returns why an own tally may not be charged for this request. Where
// nothing is sold, or for longer than anything lives that was ever sold here, a thief of the key made it, or
// an instance that another clock or PassTime holds for.
// The thief must not get more than that takes.
func (c *challenger) faultOfOwn(now time.Time, who *subject, own *token.Own) tokenFault {
	if !c.sellsTallies() {
		return tokenHolder
	}
	switch longest := now.Add(c.longestPass + time.Minute).Unix(); {
	case own.Expires > longest:
		return tokenLate
	case !own.Bound && c.bindsOwn(who.id):
		return tokenHolder
	}
	return tokenSound
}
