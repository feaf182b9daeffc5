// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"fmt"
	"strings"
)

// A verdict judges a client in one case.
type verdict = string

const (
	// passed: the client did all that it could, and nothing else.
	passed verdict = "passed"

	// returned: the client did nothing wrong, and gave a refusal to its caller that it could
	// have helped, by work or a wait.
	returned verdict = "returned"

	// failed: see the faults.
	failed verdict = "failed"

	// missing: not all of the case's requests were sent.
	missing verdict = "missing"
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
	// tokenDropped: no token of the policy, although one that has not expired came before.
	tokenDropped code = "token-dropped"

	// tokenStale: a token of the policy, but not the newest.
	tokenStale code = "token-stale"

	// tokenLeaked: a token or a proof was shown to another origin.
	tokenLeaked code = "token-leaked"

	// tooEarly: sent again before Retry-After was over, and without a proof.
	tooEarly code = "too-early"

	// sentAgain: sent again although it was admitted, or although neither time nor work helps.
	sentAgain code = "sent-again"

	// changed: sent again with another method or body.
	changed code = "changed"

	// proofForeign: a proof for another challenge than the refusal's.
	proofForeign code = "proof-foreign"

	// proofDropped: another proof or none, after the last was answered 503.
	proofDropped code = "proof-dropped"

	// proofWrong: the answers of a proof are wrong, or it cannot be read.
	proofWrong code = "proof-wrong"

	// endless: more than three proofs for one request.
	endless code = "endless"

	// outOfTurn: a request of the case came after a later one.
	outOfTurn code = "out-of-turn"
)

// A Result is one case with its verdict.
type Result struct {
	Case    string  `json:"case"`
	Verdict string  `json:"verdict"`
	Faults  []Fault `json:"faults,omitempty"`
	Sends   []Send  `json:"sends"`
}

// A Send is a request as it came, and its answer.
type Send struct {
	Call       int    `json:"call"`
	Tokens     int    `json:"tokens"` // shown, of the policies of this case
	Proof      bool   `json:"proof"`
	Status     int    `json:"status"` // 0: no answer was sent
	RetryAfter int    `json:"retry-after,omitempty"`
	Reason     string `json:"reason,omitempty"` // of a refusal, or for which a proof was not accepted
}

// A Report holds the results of all cases.
type Report struct {
	Passed   int      `json:"passed"`
	Returned int      `json:"returned"`
	Failed   int      `json:"failed"`
	Missing  int      `json:"missing"`
	Cases    []Result `json:"cases"`
}

// OK reports whether all cases were tried, and none failed.
func (r Report) OK() bool { return r.Failed == 0 && r.Missing == 0 }

// String returns the report as text: a line for each case, and one for each fault.
func (r Report) String() string {
	var b strings.Builder
	for _, c := range r.Cases {
		fmt.Fprintf(&b, "%-9s %s\n", c.Verdict, c.Case)
		for _, f := range c.Faults {
			fmt.Fprintf(&b, "          request %d, send %d: %s", f.Call, f.Send, f.Code)
			if f.Detail != "" {
				b.WriteString(": " + f.Detail)
			}
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "%d passed, %d returned, %d failed, %d missing\n", r.Passed, r.Returned, r.Failed, r.Missing)
	return b.String()
}
