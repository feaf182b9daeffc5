// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"encoding/binary"
	"hash"
)

// Binding says for whom and for what a challenge is. A proof is accepted only
// under the binding its challenge was issued for, all three byte for byte.
type Binding struct {
	// Client is the identity, in any encoding that is stable: the bytes of an IP
	// prefix, a principal. Never empty: a blank would be one client that
	// everybody shares.
	Client []byte
	// Route is the name of the policy.
	Route string
	// Tier is the tier within it, or empty.
	Tier string
}

// tag returns the eight bytes that stand for b in a challenge. It is keyed, so a
// challenge does not tell its client, and lengths go in front of the parts,
// so no two bindings are the same bytes. Eight bytes suffice: a second binding
// with the same tag is a guess at 2^-64 that can only be tried against the
// issuer, once for every challenge.
func (w *workspace) tag(h hash.Hash, b Binding) [tagLen]byte {
	s := binary.BigEndian.AppendUint32(w.scratch[:0], uint32(len(b.Client)))
	s = append(s, b.Client...)
	s = binary.BigEndian.AppendUint32(s, uint32(len(b.Route)))
	s = append(s, b.Route...)
	s = binary.BigEndian.AppendUint32(s, uint32(len(b.Tier)))
	w.scratch = append(s, b.Tier...)
	return [tagLen]byte(w.hmac(h, w.scratch)[:tagLen])
}
