// SPDX-License-Identifier: Apache-2.0

package world

import (
	"crypto/rand"
	"slices"
)

// A ring is the secrets of all instances while they are rotated as docs/operations.md says: the
// new one is added last, everywhere; then it is moved first, everywhere; the old one is
// dropped when the tokens that it has signed are dead.
//
// Each step is one Reconfigure of all instances, so next is called when the last step is
// in force everywhere.
type ring struct {
	secrets []string
	dead    map[string]int64 // by the secret: when its last token is dead
	fresh   string           // was added, and does not sign yet
	wanted  bool

	added, led, dropped int64
}

// ringMost is how many secrets a Config takes.
const ringMost = 8

func newRing() *ring {
	return &ring{secrets: []string{secret()}, dead: map[string]int64{}}
}

func secret() string { return rand.Text() + rand.Text() }

// rotate begins a rotation with the next step, or as soon as there is room.
func (r *ring) rotate() { r.wanted = true }

// next takes the next step at a time, where life is that of the longest-lived token, and returns
// what is to be in force.
func (r *ring) next(now, life int64) []string {
	switch {
	case r.fresh != "": // all have it
		old := r.secrets[0]
		r.secrets = slices.Insert(slices.DeleteFunc(r.secrets, r.isFresh), 0, r.fresh)
		// Requests that are under way while this comes into force are signed by the old one
		// still, at the same time: the clock stands meanwhile, or has moved by less than this.
		r.dead[old] = now + life + window
		r.fresh = ""
		r.led++
	case r.wanted && len(r.secrets) < ringMost:
		r.fresh, r.wanted = secret(), false
		r.secrets = append(r.secrets, r.fresh)
		r.added++
	}
	r.secrets = slices.DeleteFunc(r.secrets, func(s string) bool {
		dead, old := r.dead[s]
		if !old || now < dead {
			return false
		}
		delete(r.dead, s)
		r.dropped++
		return true
	})
	return slices.Clone(r.secrets)
}

func (r *ring) isFresh(s string) bool { return s == r.fresh }
