// SPDX-License-Identifier: Apache-2.0

package refusallog

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/tallystick/tallystick/middleware"
)

// maxOffenders is how many clients are counted at once. A client with more than 1/maxOffenders
// of all refusals is always among them.
const maxOffenders = 128

// offenders count which clients are refused most, by the Space-Saving algorithm (Metwally, Agrawal and
// El Abbadi, 2005): a client that is not counted takes the place of the one with the smallest
// count, and goes on from it. No count is too low; by how much it may be too high is kept.
//
// The smallest is found by a heap, so that a flood of clients that come once each costs seven
// comparisons a refusal, and not 128.
type offenders struct {
	places map[string]*offender
	heap   byCount
}

// An offender is one place.
type offender struct {
	client string
	reason middleware.Reason // of its last refusal
	count  uint64
	over   uint64 // by how much the count may be too high
	at     int    // in the heap
}

// atLeast is how often the client was refused, for certain.
func (o *offender) atLeast() uint64 { return o.count - o.over }

// add counts one refusal.
func (o *offenders) add(client string, reason middleware.Reason) {
	place := o.places[client]
	switch {
	case place != nil:
	case len(o.heap) < maxOffenders:
		if o.places == nil {
			o.places = make(map[string]*offender, maxOffenders)
		}
		place = &offender{client: client}
		heap.Push(&o.heap, place)
		o.places[client] = place
	default:
		place = o.heap[0]
		delete(o.places, place.client)
		place.client, place.over = client, place.count
		o.places[client] = place
	}
	place.count++
	place.reason = reason
	heap.Fix(&o.heap, place.at)
}

// A byCount is places, the one with the smallest count first: a [heap.Interface].
type byCount []*offender

func (h byCount) Len() int           { return len(h) }
func (h byCount) Less(i, j int) bool { return h[i].count < h[j].count }
func (h byCount) Pop() any           { panic("none is taken out") }

func (h byCount) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *byCount) Push(place any) {
	o := place.(*offender)
	o.at = len(*h)
	*h = append(*h, o)
}

// most returns those that were refused most for certain, the worst first.
func (o *offenders) most(n int) []*offender {
	all := slices.Clone(o.heap)
	slices.SortFunc(all, func(a, b *offender) int {
		return cmp.Or(cmp.Compare(b.atLeast(), a.atLeast()), cmp.Compare(a.client, b.client))
	})
	return all[:min(n, len(all))]
}

// clear forgets all.
func (o *offenders) clear() {
	clear(o.places)
	o.heap = o.heap[:0]
}
