// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// early is how much too early a timer may fire: the timers of some runtimes do so by a millisecond,
// and clocks are read at two ends. Whole seconds are asked for.
const early = 50 * time.Millisecond

// most is how many proofs a request is worth.
const most = 3

// A judge follows one case.
type judge struct {
	visits []*visit
	newest map[of]windowToken
	faults []Fault
}

// of is what a token is of, for all that a client has to know: its sub tells things apart.
type of struct{ thing, policy string }

// A verdict judges a client in one case.
type verdict = string

const (
	passed   verdict = "passed"   // the client did all that it could, and nothing else
	returned verdict = "returned" // it did nothing wrong, and gave its caller a refusal that work or a wait would have helped
	failed   verdict = "failed"   // see the faults
	missing  verdict = "missing"  // not all of the case's requests were sent
)

// A Fault is something that a client did wrong.
type Fault struct {
	Code   string `json:"code"`
	Call   int    `json:"call"` // which request of the case, from 1
	Send   int    `json:"send"` // which of all sends of the case, from 1
	Detail string `json:"detail,omitempty"`
}

// A code says what is wrong with what a client has sent.
type code = string

const (
	tokenDropped code = "token-dropped" // no token of the policy, although one that has not expired came before
	tokenStale   code = "token-stale"   // a token of the policy, but not the newest
	tokenLeaked  code = "token-leaked"  // a token or a proof was shown to another origin
	tooEarly     code = "too-early"     // sent again before Retry-After was over, and without a proof
	sentAgain    code = "sent-again"    // sent again although it was admitted, or although neither time nor work helps
	changed      code = "changed"       // sent again with another method or body
	proofForeign code = "proof-foreign" // a proof for another challenge than the refusal's
	proofDropped code = "proof-dropped" // another proof or none, after the last was answered 503
	proofWrong   code = "proof-wrong"   // the answers of a proof are wrong, or it cannot be read
	endless      code = "endless"       // more than three proofs for one request
	outOfTurn    code = "out-of-turn"   // a request of the case came after a later one
)

// A Send is a request as it came, and its answer.
type Send struct {
	Call       int    `json:"call"`
	Tokens     int    `json:"tokens"` // shown, of the policies of this case
	Proof      bool   `json:"proof"`
	Status     int    `json:"status"` // 0: no answer was sent
	RetryAfter int    `json:"retry-after,omitempty"`
	Reason     string `json:"reason,omitempty"` // of a refusal, or for which a proof was not accepted
}

func (j *judge) blame(v *visit, code, detail string) {
	send := 1 + slices.Index(j.visits, v)
	j.faults = append(j.faults, Fault{Code: code, Call: v.call, Send: send, Detail: detail})
}

// last returns the visit before, or nil.
func (j *judge) last() *visit {
	if len(j.visits) == 0 {
		return nil
	}
	return j.visits[len(j.visits)-1]
}

// waited reports whether the wait that a refusal asked for has passed.
func waited(refusal *visit, at time.Time) bool {
	return at.Sub(refusal.answered) >= time.Duration(refusal.retryAfter)*time.Second-early
}

// arrive judges what has come, before it is answered.
func (j *judge) arrive(v *visit) {
	before := j.last()
	j.visits = append(j.visits, v)
	if v.elsewhere {
		if len(v.tokens) > 0 || v.proof != "" {
			j.blame(v, tokenLeaked, "")
		}
		return
	}
	for _, policy := range j.policies(v.thing) {
		newest := j.newest[of{v.thing, policy}]
		exactly, another := v.shows(newest)
		switch {
		case exactly || !newest.expires.After(v.at):
		case another:
			j.blame(v, tokenStale, "of policy "+policy)
		default:
			j.blame(v, tokenDropped, "of policy "+policy)
		}
	}
	if before == nil {
		return
	}
	switch {
	case v.call < before.call:
		j.blame(v, outOfTurn, "")
	case v.call == before.call:
		j.again(v, before)
	}
}

// again judges a request that is sent once more.
func (j *judge) again(v, before *visit) {
	if v.method != before.method || v.body != before.body {
		j.blame(v, changed, "")
	}
	if before.proof != "" && before.status == http.StatusServiceUnavailable && v.proof != before.proof {
		j.blame(v, proofDropped, "")
	}
	proofs := make(map[string]bool)
	for _, other := range j.visits {
		if other.call == v.call && other.proof != "" {
			proofs[other.proof] = true
		}
	}
	switch {
	case before.status == 0: // its answer was lost
	case before.status >= 300 && before.status < 400: // redirected to itself
	case !before.refused():
		j.blame(v, sentAgain, "it was admitted")
	case len(proofs) > most:
		j.blame(v, endless, fmt.Sprintf("proof number %d", len(proofs)))
	case v.proof != "" && before.challenge != "":
		if !strings.HasPrefix(v.proof, before.challenge+"~") {
			j.blame(v, proofForeign, "")
		}
	case before.retryAfter == 0:
		j.blame(v, sentAgain, fmt.Sprintf("after a %d without Retry-After", before.status))
	case !waited(before, v.at):
		j.blame(v, tooEarly, fmt.Sprintf("after %.1f s; Retry-After was %d", v.at.Sub(before.answered).Seconds(), before.retryAfter))
	}
}

// leave notes what was answered.
func (j *judge) leave(v *visit) {
	if v.proofError == "wrong-solution" {
		j.blame(v, proofWrong, "")
	}
	for _, token := range v.issued {
		j.newest[of{v.thing, token.policy}] = token
	}
}

// verdict says what there is to say when all is over.
func (j *judge) verdict(calls int, hopeless bool) string {
	if len(j.faults) > 0 {
		return failed
	}
	last := make(map[int]*visit)
	for _, v := range j.visits {
		last[v.call] = v
	}
	verdict := passed
	for call := 1; call <= calls; call++ {
		switch v := last[call]; {
		case v == nil:
			return missing
		case v.refused() && !hopeless:
			verdict = returned
		}
	}
	return verdict
}

// policies returns the policies that have tokens of a scope.
func (j *judge) policies(thing string) (all []string) {
	for key := range j.newest {
		if key.thing == thing {
			all = append(all, key.policy)
		}
	}
	slices.Sort(all)
	return all
}

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

// inCookies returns the tokens in cookies: a scope's token is preceded by its owner.
func inCookies(cookies []*http.Cookie) (tokens []windowToken) {
	for _, c := range cookies {
		if !strings.HasPrefix(c.Name, cookiePrefix) {
			continue
		}
		_, tok, marked := strings.Cut(c.Value, "~")
		if !marked || !strings.Contains(c.Name, ".for.") {
			tok = c.Value
		}
		tokens = append(tokens, readToken(tok))
	}
	return tokens
}

// arrival notes what a client has sent.
func arrival(r *http.Request, call int, body string, at time.Time) *visit {
	v := &visit{call: call, method: r.Method, body: body, proof: r.Header.Get(middleware.ProofHeader), at: at}
	for _, line := range r.Header.Values(middleware.TokenHeader) {
		for piece := range strings.SplitSeq(line, ",") {
			v.tokens = append(v.tokens, readToken(strings.TrimSpace(piece)))
		}
	}
	v.tokens = append(v.tokens, inCookies(r.Cookies())...)
	return v
}

// answer notes what the client is answered.
func (v *visit) answer(resp *http.Response, at time.Time) {
	v.status, v.answered = resp.StatusCode, at
	for _, line := range resp.Header.Values(middleware.TokenHeader) {
		v.issued = append(v.issued, readToken(line))
	}
	if len(v.issued) == 0 { // one that shows cookies is answered by cookies
		v.issued = inCookies(resp.Cookies())
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
