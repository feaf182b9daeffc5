// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"hash/maphash"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// Idempotency remembers what became of calls that have an ID, for [exact.IDLife] at least and twice
// that at most, and nothing of calls without one. It remembers the last 4096 refusals at least and twice as many at most: admissions
// are bounded by quotas, and refusals by nothing. One that is forgotten early is decided anew, and
// no call is charged twice. It is for an engine of one process: an [Account] holds what several
// processes must know of each other's calls. It is not safe for concurrent use. The zero
// Idempotency remembers nothing yet.
type Idempotency struct {
	admitted [2]map[asked]exact.Receipt // of the last IDLife, and of the one before
	refused  [2]map[asked]refusal       // the same, or of the last keptRefusals
	turned   time.Time
	seeds    [2]maphash.Seed
}

// keptRefusals are enough for a call whose answer was lost to find its refusal within a deadline of
// 40 ms, at 100,000 refusals a second. An entry of one of the two maps takes some 50 bytes.
const keptRefusals = 4096

// asked is a hash of what a call asked for, by secret seeds: 128 bits, so that no two are the same.
type asked [2]uint64

// A refusal is its wait in seconds, twice, and 1 more where it was Impossible.
type refusal uint32

// Find returns the verdict of an earlier call with that ID for that name of what is
// counted: without how the limits stood. It is for [Account.Replay] to complete.
func (r *Idempotency) Find(now time.Time, name, id string) (v exact.Verdict, found bool) {
	if id == "" {
		return v, false
	}
	r.turn(now)
	key := r.key(name, id)
	for i := range r.admitted {
		if receipt, ok := r.admitted[i][key]; ok {
			v.Admitted, v.Receipt = true, receipt
			return v, true
		}
		if said, ok := r.refused[i][key]; ok {
			v.Wait, v.Impossible = time.Duration(said/2)*time.Second, said%2 == 1
			return v, true
		}
	}
	return v, false
}

// Keep remembers a verdict.
func (r *Idempotency) Keep(now time.Time, name, id string, v exact.Verdict) {
	if id == "" {
		return
	}
	r.turn(now)
	key := r.key(name, id)
	if v.Admitted {
		if r.admitted[0] == nil {
			r.admitted[0] = make(map[asked]exact.Receipt)
		}
		r.admitted[0][key] = v.Receipt
		return
	}
	if len(r.refused[0]) >= keptRefusals {
		r.refused[0], r.refused[1] = r.refused[1], r.refused[0]
		clear(r.refused[0])
	}
	if r.refused[0] == nil {
		r.refused[0] = make(map[asked]refusal)
	}
	said := refusal(wholeSeconds(int64(v.Wait))/time.Second) * 2
	if v.Impossible {
		said++
	}
	r.refused[0][key] = said
}

// Forget forgets a call.
func (r *Idempotency) Forget(name, id string) {
	key := r.key(name, id)
	for i := range r.admitted {
		delete(r.admitted[i], key)
		delete(r.refused[i], key)
	}
}

// key hashes what a call asked for. Names and IDs may hold any byte.
func (r *Idempotency) key(name, id string) (key asked) {
	if r.seeds == ([2]maphash.Seed{}) {
		r.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	}
	for i, seed := range r.seeds {
		key[i] = maphash.Comparable(seed, [2]string{name, id})
	}
	return key
}

// turn forgets what need not be remembered any more. A clock that steps back keeps
// it, until it is there again; one that steps back further was wrong before.
func (r *Idempotency) turn(now time.Time) {
	switch passed := now.Sub(r.turned); {
	case passed >= 2*exact.IDLife:
		r.admitted[0], r.admitted[1], r.refused[0], r.refused[1], r.turned = nil, nil, nil, nil, now
	case passed < -2*exact.IDLife:
		r.turned = now
	case passed >= exact.IDLife:
		r.admitted[0], r.admitted[1], r.turned = nil, r.admitted[0], now
		r.refused[0], r.refused[1] = nil, r.refused[0]
	}
}
