// SPDX-License-Identifier: Apache-2.0

package refusallog

import (
	"cmp"
	"slices"

	"github.com/tallystick/tallystick/middleware"
)

// maxOffenders is how many clients are counted at once: one with more than 1 in so many of all
// refusals is always among them.
const maxOffenders = 128

// offenders count which clients are refused most, by the Space-Saving algorithm (Metwally, Agrawal and
// El Abbadi, 2005): a client that is not counted takes the place of the one with the smallest
// count, and goes on from it. No count is too low; by how much it may be too high is kept.
//
// The smallest is found by a heap, so that a flood of clients that come once each costs seven
// comparisons a refusal, and not 128.
type offenders struct {
	places map[string]*offender
	heap   []*offender // by count, the smallest first
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
		place = &offender{client: client, at: len(o.heap)}
		o.heap = append(o.heap, place)
		o.places[client] = place
		o.up(place) // of count 0: the smallest
	default:
		place = o.heap[0]
		delete(o.places, place.client)
		place.client, place.over = client, place.count
		o.places[client] = place
	}
	place.count++
	place.reason = reason
	o.down(place)
}

// up moves a place to where it belongs, nearer to the first.
func (o *offenders) up(p *offender) {
	for p.at > 0 {
		above := o.heap[(p.at-1)/2]
		if above.count <= p.count {
			return
		}
		o.swap(p, above)
	}
}

// down moves a place to where it belongs, further from the first.
func (o *offenders) down(p *offender) {
	for {
		least := p
		for _, i := range [...]int{2*p.at + 1, 2*p.at + 2} {
			if i < len(o.heap) && o.heap[i].count < least.count {
				least = o.heap[i]
			}
		}
		if least == p {
			return
		}
		o.swap(p, least)
	}
}

func (o *offenders) swap(a, b *offender) {
	o.heap[a.at], o.heap[b.at] = b, a
	a.at, b.at = b.at, a.at
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
