// SPDX-License-Identifier: Apache-2.0

package gossip

// What of own counts was told, and acknowledged.

// lastTold returns what was told of a record last.
func (rec *record) lastTold() pair {
	if rec.told.seq > 0 {
		return rec.told.own
	}
	return rec.base
}

// settle notes what of a record all live peers have acknowledged.
func (r *Records) settle(rec *record) {
	switch {
	case rec.told.seq > 0 && rec.told.seq <= r.acked:
		rec.base.merge(rec.told.own)
		rec.older = told{}
	case rec.older.seq > 0 && rec.older.seq <= r.acked:
		rec.base.merge(rec.older.own)
		rec.older = told{}
	}
}

// unacked returns what some live peer has not acknowledged. A process that does not know what was before it
// has been told frees nothing.
func (r *Records) unacked(rec *record) uint32 {
	r.settle(rec)
	switch {
	case !r.ready:
		return rec.own.plus
	case r.live == 0:
		return 0
	}
	return rec.own.plus - rec.base.plus
}

// tell has a record told with the next batches.
func (r *Records) tell(at int, urgent bool) {
	if len(r.peers) == 0 {
		return
	}
	rec := &r.all[at]
	if was := rec.dirty; !was {
		rec.dirty = true
		r.dirty = append(r.dirty, uint32(at))
		if len(r.dirty) == 1 {
			r.wake()
		}
	}
	if urgent && !r.urgent {
		r.urgent = true
		r.wake()
	}
}

// free wakes the requests that wait for what has been acknowledged.
func (r *Records) free() {
	for key := range r.waiting {
		if at := r.find(key); at >= 0 && r.live > 0 {
			rec := &r.all[at]
			was := rec.base
			if r.settle(rec); r.ready && rec.base == was {
				continue
			}
		}
		r.release(key)
	}
}
