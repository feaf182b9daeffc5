// SPDX-License-Identifier: Apache-2.0

package cells

import "sync"

// A Stripe guards some sets of cells. All counts of a tally lie in one stripe, so one
// critical section of some tens of nanoseconds checks and charges all its limits.
// Neighbouring locks share no cache line.
type Stripe struct {
	sync.Mutex
	_ [StripeSize - 8]byte
}

type Stripes []Stripe

const (
	StripeSize    = 64
	setsPerStripe = 64 // at least: a lock must cost little beside what it guards
	maxStripes    = 1024
)

// StripesFor returns stripes for a number of sets, and how many sets each guards.
func StripesFor(sets int) (Stripes, int) {
	n := max(1, min(maxStripes, sets/setsPerStripe))
	return make(Stripes, n), (sets + n - 1) / n
}

// Of returns the index of the stripe that holds a key.
func (s Stripes) Of(key uint64) int { return Scale(key, len(s)) }

// Lock locks all stripes, in the order in which requests do.
func (s Stripes) Lock() {
	for i := range s {
		s[i].Lock()
	}
}

func (s Stripes) Unlock() {
	for i := range s {
		s[i].Unlock()
	}
}

// Locks are the stripes that a request holds: of the tally and its networks, or of three buyers.
// Each is there once, in ascending order, so no two requests wait for each other.
type Locks struct {
	n       int
	stripes [4]int
}

func (l *Locks) Add(stripe int) {
	for i, s := range l.stripes[:l.n] {
		if s == stripe {
			return
		}
		if s > stripe {
			l.stripes[i], stripe = stripe, s
		}
	}
	l.stripes[l.n] = stripe
	l.n++
}

func (l *Locks) Hold(all Stripes) {
	for _, s := range l.stripes[:l.n] {
		all[s].Lock()
	}
}

func (l *Locks) Release(all Stripes) {
	for _, s := range l.stripes[:l.n] {
		all[s].Unlock()
	}
}
