// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/rand"
	"crypto/sha256"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A home is the process that has issued the challenge of a bought tally: not where its proof was
// shown, for one proof is good on every instance, and each would be the home. An instance
// that has never met a tally has to believe that nothing was used of it. So a tally is worth its
// quota at home, and elsewhere a share of it, see [storeless.Policy.Away].
//
// The challenge carries its home, and so does each token of the tally: four bytes of a hash of
// its serial, under a secret of the process. Other processes see that it is not theirs, and
// nobody sees how many there are, or which tallies have the same.
//
// No rule makes what one client may use depend on what its neighbours do. All that were tried, such as
// a ceiling for the tallies of an address, let a neighbour lock those out who have paid.
type home struct{ secret [sha256.Size]byte }

func newHome() *home {
	h := new(home)
	rand.Read(h.secret[:]) // never fails: the process ends first
	return h
}

// mark returns what marks a serial as of this process.
func (h *home) mark(serial [8]byte) [4]byte {
	var b [sha256.Size + len(serial)]byte
	copy(b[copy(b[:], h.secret[:]):], serial[:])
	sum := sha256.Sum256(b[:])
	return [4]byte(sum[:])
}

// is reports whether a tally was sold for a challenge of this process.
func (h *home) is(own *token.Own) bool {
	return h.mark([8]byte(own.ID[:])) == [4]byte(own.ID[8:])
}

// ownCandidate returns an own tally as it may be charged here. Away from home it is in a
// network of its own, which is counted in memory alone and has the share.
func (e *engine) ownCandidate(pass *tier, own *token.Own) storeless.Candidate {
	f := storeless.Candidate{Key: e.ownKey(own.ID), Ceiling: pass.ceiling}
	if pass.away != nil && !e.home.is(own) {
		f.Networks = []storeless.Network{{Key: e.keyOfOwn(kindAway, own.ID), Policy: pass.away}}
	}
	return f
}
