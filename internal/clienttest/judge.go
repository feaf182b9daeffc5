// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
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
