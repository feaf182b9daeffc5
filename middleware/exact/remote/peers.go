// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/url"
	"sync/atomic"
)

// A peer is an owner as a caller knows it.
type peer struct {
	url   string
	to    *url.URL     // the same, parsed
	name  string       // the same in errors: without a query, which may have a secret
	ahead atomic.Int64 // ms that its clock is ahead of ours, by its last answer

	// Refunds leave apart: a request with a refund is never repeated unseen.
	calls, refunds lane
}

// fault names the owner that an error is about: an operator must find the one among ten.
func (o *peer) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", o.name, err)
}

// rendezvous returns which of the owners a name belongs to: the one whose hash with it is
// largest (Thaler and Ravishankar, 1998). When an owner is added or gone, only its keys
// move.
func rendezvous(owners []*peer, name string) (best int) {
	var most uint64
	for i, o := range owners {
		h := sha256.New()
		h.Write([]byte(o.url))
		h.Write([]byte{0})
		h.Write([]byte(name))
		if weight := binary.BigEndian.Uint64(h.Sum(nil)); i == 0 || weight > most {
			best, most = i, weight
		}
	}
	return best
}
