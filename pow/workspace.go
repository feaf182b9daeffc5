// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// ring holds the derived keys and the pool of workspaces keyed with them.
type ring struct {
	keys []subkeys
	pool sync.Pool
}

func newRing(c Config) (*ring, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := new(ring)
	for _, s := range c.Secrets {
		k, err := derive(s)
		if err != nil {
			return nil, err
		}
		r.keys = append(r.keys, k)
	}
	r.pool.New = func() any { return newWorkspace(r.keys) }
	return r, nil
}

func (r *ring) get() *workspace { return r.pool.Get().(*workspace) }

// put returns a workspace, unless an unusually long binding made it a hoard.
func (r *ring) put(w *workspace) {
	if cap(w.scratch) <= maxScratch {
		r.pool.Put(w)
	}
}

// states are the keyed hashes of one secret. After the first use Reset restores
// the state behind the key block, which saves two of the five blocks of a MAC.
type states struct {
	kid            byte
	mac, num, bind hash.Hash
}

// maxScratch is the largest scratch, in bytes, that goes back into the pool.
const maxScratch = 4096

// workspace has what one call needs and would otherwise allocate: whatever is
// handed to a hash through its interface escapes to the heap.
type workspace struct {
	keys    []states
	raw     [maxRaw]byte
	nonce   [nonceLen]byte
	sum     [sha256.Size]byte
	scratch []byte
}

func newWorkspace(keys []subkeys) *workspace {
	w := &workspace{keys: make([]states, len(keys)), scratch: make([]byte, 0, 128)}
	for i, k := range keys {
		w.keys[i] = states{
			kid:  k.kid,
			mac:  hmac.New(sha256.New, k.mac),
			num:  hmac.New(sha256.New, k.num),
			bind: hmac.New(sha256.New, k.bind),
		}
	}
	return w
}

// hmac leaves the MAC of msg in w.sum. The result is valid until the next call.
func (w *workspace) hmac(h hash.Hash, msg []byte) *[sha256.Size]byte {
	h.Reset()
	h.Write(msg)
	h.Sum(w.sum[:0])
	return &w.sum
}

// numbers derives the hidden numbers of a header with one MAC. The leading
// uint32 is a block counter: more puzzles would need more MACs.
func (w *workspace) numbers(key *states, header []byte, span uint32) [puzzles]uint32 {
	w.scratch = append(append(w.scratch[:0], 0, 0, 0, 0), header...)
	return hidden(w.hmac(key.num, w.scratch), span)
}
