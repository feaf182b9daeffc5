// SPDX-License-Identifier: Apache-2.0

package storeless

import "sync"

// A stripe guards some sets of cells. All counts of a tally lie in one stripe, so that
// check and charge of all its limits is one critical section of some tens of
// nanoseconds; neighbouring locks share no cache line.
type stripe struct {
	sync.Mutex
	_ [stripeSize - 8]byte
}

type stripes []stripe

const (
	stripeSize    = 64
	setsPerStripe = 64 // at least: a lock must cost little beside what it guards
	maxStripes    = 1024
)

// stripesFor returns the stripes of so many sets, and how many sets each of them has.
func stripesFor(sets int) (stripes, int) {
	n := max(1, min(maxStripes, sets/setsPerStripe))
	return make(stripes, n), (sets + n - 1) / n
}

// stripe returns the index of the stripe that holds a tally.
func (s stripes) stripe(k Key) int { return scale(uint64(k), len(s)) }

// lock locks all stripes, in the order in which requests do.
func (s stripes) lock() {
	for i := range s {
		s[i].Lock()
	}
}

func (s stripes) unlock() {
	for i := range s {
		s[i].Unlock()
	}
}

// locks are the stripes a request holds: the tally's and those of its networks, or buyers, each
// once, in ascending order, so that no two requests wait for each other.
type locks struct {
	n       int
	stripes [1 + MaxNetworks]int // a sale has no more buyers
}

func (l *locks) add(stripe int) {
	i := l.n
	for i > 0 && l.stripes[i-1] > stripe {
		i--
	}
	if i > 0 && l.stripes[i-1] == stripe {
		return
	}
	copy(l.stripes[i+1:l.n+1], l.stripes[i:l.n])
	l.stripes[i] = stripe
	l.n++
}

func (l *locks) hold(all stripes) {
	for _, s := range l.stripes[:l.n] {
		all[s].Lock()
	}
}

func (l *locks) release(all stripes) {
	for _, s := range l.stripes[:l.n] {
		all[s].Unlock()
	}
}
