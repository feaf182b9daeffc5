// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"container/heap"
	"container/list"
)

// A Key names a tally, or a network.
type Key uint64

// A network is from where some of those come who wait, newest last.
//
// A request whose body nobody reads is not known to be dead before its turn: net/http notices
// that a client has hung up when something reads. So those who wait prove nothing, and whoever
// has most of the room gives way. (A share of the room for each would do, if it were known how
// many come; that the longest queue drops needs no number, and refuses nobody while there is room:
// "drop on demand" of Wei, Coyle and Hsiao, An optimal buffer management policy for
// high-performance packet switching, GLOBECOM 1991.)
type network struct {
	key     Key
	waiting list.List
	at      int // of the heap
}

// A longest is a heap of networks: the first has most who wait.
type longest []*network

func (h longest) Len() int           { return len(h) }
func (h longest) Less(i, j int) bool { return h[i].waiting.Len() > h[j].waiting.Len() }
func (h longest) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements [heap.Interface].
func (h *longest) Push(n any) {
	n.(*network).at = len(*h)
	*h = append(*h, n.(*network))
}

// Pop implements [heap.Interface].
func (h *longest) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}

// Networks are those of which some wait.
type networks struct {
	all     map[Key]*network
	longest longest
}

// A seat finds one that waits among those of its network.
type seat struct {
	network *network
	elem    *list.Element
}

// join counts one that waits among those of its network.
func (all *networks) join(key Key, who any) seat {
	n := all.all[key]
	if n == nil {
		if all.all == nil {
			all.all = make(map[Key]*network)
		}
		n = &network{key: key}
		all.all[key] = n
		heap.Push(&all.longest, n)
	}
	elem := n.waiting.PushBack(who)
	heap.Fix(&all.longest, n.at)
	return seat{n, elem}
}

// leave gives a seat back.
func (all *networks) leave(s seat) {
	n := s.network
	n.waiting.Remove(s.elem)
	if n.waiting.Len() > 0 {
		heap.Fix(&all.longest, n.at)
		return
	}
	heap.Remove(&all.longest, n.at)
	delete(all.all, n.key)
}

// inTheWay returns who has to give way to one more of a network: the newest of the one that has
// most. It is nil if that has not two more than the other: else two would oust each other.
func (all *networks) inTheWay(key Key) any {
	own := 0
	if n := all.all[key]; n != nil {
		own = n.waiting.Len()
	}
	if len(all.longest) == 0 || all.longest[0].waiting.Len() < own+2 {
		return nil
	}
	return all.longest[0].waiting.Back().Value
}
