// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// A visit is one send of a client, and what it was answered.
type visit struct {
	call      int
	thing     string // that it asks for
	method    string
	body      string
	tokens    []windowToken // shown, in fields and cookies
	proof     string
	elsewhere bool // at the other origin
	at        time.Time

	status     int           // 0: the answer was cut off
	issued     []windowToken // in the answer
	challenge  string
	retryAfter int
	reason     middleware.Reason
	proofError middleware.Reason
	answered   time.Time
}

type windowToken struct {
	text    string
	policy  string
	expires time.Time
}

// readToken reads a token, which need not be one.
func readToken(text string) windowToken {
	t := windowToken{text: text}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return t
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return t
	}
	var claims struct {
		Aud string
		Exp int64
	}
	if json.Unmarshal(payload, &claims) == nil {
		t.policy, t.expires = claims.Aud, time.Unix(claims.Exp, 0)
	}
	return t
}

const cookiePrefix = "tallystick-"

// unmarked returns the token in a cookie: a scope's token is preceded by its owner.
func unmarked(c *http.Cookie) string {
	_, tok, marked := strings.Cut(c.Value, "~")
	if marked && strings.Contains(c.Name, ".for.") {
		return tok
	}
	return c.Value
}

// arrival notes what a client has sent.
func arrival(r *http.Request, call int, body string, at time.Time) *visit {
	v := &visit{call: call, method: r.Method, body: body, proof: r.Header.Get(middleware.ProofHeader), at: at}
	for _, line := range r.Header.Values(middleware.TokenHeader) {
		for piece := range strings.SplitSeq(line, ",") {
			v.tokens = append(v.tokens, readToken(strings.TrimSpace(piece)))
		}
	}
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, cookiePrefix) {
			v.tokens = append(v.tokens, readToken(unmarked(cookie)))
		}
	}
	return v
}

// answer notes what the client is answered.
func (v *visit) answer(resp *http.Response, at time.Time) {
	v.status, v.answered = resp.StatusCode, at
	for _, line := range resp.Header.Values(middleware.TokenHeader) {
		v.issued = append(v.issued, readToken(line))
	}
	if len(v.issued) == 0 { // one that shows cookies is answered by cookies
		for _, cookie := range resp.Cookies() {
			if strings.HasPrefix(cookie.Name, cookiePrefix) {
				v.issued = append(v.issued, readToken(unmarked(cookie)))
			}
		}
	}
	v.challenge, _, _ = strings.Cut(resp.Header.Get(middleware.ChallengeHeader), ";")
	v.retryAfter, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
}

// refused reports whether the answer was a refusal.
func (v *visit) refused() bool { return v.status >= 400 }

// shows reports whether a token was shown and, if not, whether another one of its policy was.
func (v *visit) shows(token windowToken) (exactly, another bool) {
	for _, shown := range v.tokens {
		if shown.text == token.text {
			return true, false
		}
		another = another || shown.policy == token.policy
	}
	return false, another
}

// send is the visit as the report has it.
func (v *visit) send(policies map[string]bool) Send {
	s := Send{Call: v.call, Proof: v.proof != "", Status: v.status, RetryAfter: v.retryAfter, Reason: string(v.reason)}
	if v.proofError != "" {
		s.Reason = string(v.proofError)
	}
	if !v.refused() {
		s.Reason = ""
	}
	for _, shown := range v.tokens {
		if policies[shown.policy] {
			s.Tokens++
		}
	}
	return s
}
