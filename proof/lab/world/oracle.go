// SPDX-License-Identifier: Apache-2.0

package world

import "github.com/tallystick/tallystick/proof/lab/judge"

// An oracle knows what one client has truly used of a sliding window, because it sees all of its
// answers. So it says of each whether it was just, both ways.
type oracle struct {
	at         int64 // the window
	prev, last int64
	reach      int64 // what was used since the clocks agreed for three windows
	lost       int64 // requests of the window that had no answer: they may have been charged
}

// roll goes on to a window. Where the clocks have disagreed, all that was used since may count.
func (o *oracle) roll(at int64, touched bool) {
	switch at - o.at {
	case 0:
	case 1:
		o.prev, o.last = o.last, 0
	default:
		o.prev, o.last = 0, 0
	}
	if !touched {
		o.reach = o.prev
	}
	if o.at != at {
		o.lost = 0
	}
	o.at = at
}

// used notes an admitted request.
func (o *oracle) used() { o.last++; o.reach++ }

// must says that a request at some moment of the window, under some quota, has room wherever
// the instance's clock is in its spread.
func (o *oracle) must(elapsed, quota judge.Spread, touched bool) bool {
	if touched {
		return o.reach+o.lost+1 <= quota.Least
	}
	return room(o.prev, o.last+o.lost, elapsed.Least, quota.Least)
}

// may says that it can have room. Where clocks are wrong by far that is no question of one
// client: see [book].
func (o *oracle) may(elapsed, quota judge.Spread, touched bool) bool {
	return touched || room(o.prev, o.last, elapsed.Most, quota.Most)
}

// room is the rule: the last window weighs as much as is left of it.
func room(prev, last, elapsed, quota int64) bool {
	return prev*(window-elapsed)+(last+1)*window <= quota*window
}
