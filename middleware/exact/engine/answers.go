// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// answers are the admitted calls with an ID that an account remembers, the oldest first.
type answers []answer

// keptAnswers is how many they are at most: they are written with the account, at some 30
// bytes each, and a lost answer is asked for again within a deadline.
const keptAnswers = 128

// An answer is a receipt without what the next call brings with it.
type answer struct {
	id     [16]byte // the beginning of a SHA-256: of some calls' clients choose it
	given  int64    // Unix ns
	at     int64    // of the receipt, Unix ns
	cost   int64    // 0: there was none, as of a pause
	serial string
}

func answerID(id string) (short [16]byte) {
	sum := sha256.Sum256([]byte(id))
	copy(short[:], sum[:])
	return short
}

// find returns the verdict of an earlier call with the ID of a call, for Replay to complete.
func (r answers) find(now time.Time, call *exact.Call) (v exact.Verdict, found bool) {
	if call.ID == "" || len(r) == 0 {
		return v, false
	}
	id := answerID(call.ID)
	for i := range r {
		if r[i].id != id || r[i].over(now) {
			continue
		}
		v.Admitted = true
		if r[i].cost > 0 {
			v.Receipt = exact.Receipt{Key: call.Key, Cost: r[i].cost, Costs: call.Costs, Policy: call.Policy, At: time.Unix(0, r[i].at), Serial: r[i].serial}
		}
		return v, true
	}
	return v, false
}

// over reports whether an answer need not be remembered any more.
func (r *answer) over(now time.Time) bool { return now.UnixNano()-r.given >= int64(exact.IDLife) }

// keep returns r with an answer more, without what is over, and without the oldest if it is full.
func (r answers) keep(now time.Time, id string, receipt *exact.Receipt) answers {
	n := 0
	for n < len(r) && (r[n].over(now) || len(r)-n >= keptAnswers) {
		n++
	}
	is := answer{id: answerID(id), given: now.UnixNano(), cost: receipt.Cost, serial: receipt.Serial}
	if receipt.Cost > 0 {
		is.at = receipt.At.UnixNano()
	}
	return append(slices.Delete(r, 0, n), is)
}

// end returns when the last is over, in Unix ns.
func (r answers) end() int64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].given + int64(exact.IDLife)
}
