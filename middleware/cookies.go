// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/hex"
	"hash/fnv"
	"strings"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

// Each scope of [Identity.For] has a cookie of its own. In one cookie for all, the token of one scope
// would replace another one's, and a browser that asks for two scopes by turns would get the
// quota of each instance. The names are few, and the value says whose it is: a name for each scope
// would fill the Cookie field of a client that visits many, until servers refuse all its requests.
// So the ninth scope takes the place of one of the others, which the memory still knows.
const (
	scopeSuffix = ".for."
	maxThings   = 8 // 5 KB at most for each policy; the usual servers and proxies take 8 in all
)

// cookiePrefix returns what the cookie of the scope of id begins with, and "" for an identity that was not
// narrowed. It is no secret: the client that gets it has asked for that scope.
func (id *Identity) cookiePrefix() string {
	scope := id.text[id.named:]
	if scope == "" {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(scope))
	return hex.EncodeToString(h.Sum(nil)) + "~"
}

// placeOf returns the digit of the cookie for the scope of a prefix, among those that a browser
// shows: its own, or a free one, or else any. Where it begins to look depends on the scope, so
// that answers to requests for several that are new rarely take the same one.
func (c *transport) placeOf(lines []string, prefix string) byte {
	var taken [maxThings]bool
	for suffix, value := range httpfield.Cookies(lines, c.cookieName, c.cookieSuffixes...) {
		digit, ok := strings.CutPrefix(suffix, scopeSuffix)
		if !ok || digit[0]-'0' >= maxThings {
			continue
		}
		if strings.HasPrefix(value, prefix) {
			return digit[0]
		}
		taken[digit[0]-'0'] = true
	}
	first := prefix[len(prefix)-2] // a hexadecimal digit
	if first >= 'a' {
		first -= 'a' - '0' - 10
	}
	first %= maxThings // '0' is a multiple
	for i := range byte(maxThings) {
		if at := (first + i) % maxThings; !taken[at] {
			return '0' + at
		}
	}
	return '0' + first
}

// appendCookieStart appends the name of a token's cookie, and what stands before the token. A
// bought tally that is good for any client is good for any scope.
func (q *call) appendCookieStart(b []byte, own *token.Own) []byte {
	b = append(b, q.transport.cookieName...)
	if q.who.cookiePrefix != "" && (own == nil || own.Bound) {
		b = append(append(b, scopeSuffix...), q.transport.placeOf(q.shown.fields["Cookie"], q.who.cookiePrefix))
		return append(append(b, '='), q.who.cookiePrefix...)
	}
	return append(b, '=')
}

// cutCookie splits a cookie of this client and scope into the parts before and after its token.
func (who *subject) cutCookie(cookie string) (start, tok string) {
	name, value, _ := strings.Cut(cookie, "=")
	value, _, _ = strings.Cut(value, ";")
	tok = strings.TrimPrefix(value, who.cookiePrefix)
	return cookie[:min(len(cookie), len(name)+1+len(value)-len(tok))], tok
}
