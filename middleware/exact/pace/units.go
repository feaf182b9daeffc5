// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A Cost is how much of one unit a call uses.
type Cost struct {
	Unit string // a name of Config.Units; "" for requests; a call is 1 request by default
	N    int64  // 0 uses none
}

// maxUnits bounds the units, requests included: each takes a call of the counter for each
// paced call.
const maxUnits = 4

// costs are the costs of one call in the order of the units. An array, because calls of
// equal costs can stand in for each other.
type costs [maxUnits]int64

// A unit is counted on its own: requests, or another thing that calls use.
type unit struct {
	name   string
	policy *exact.Policy
	emits  time.Duration // one of it becomes free in each
	most   int64         // at once
}

// newUnit assumes a policy of buckets alone.
func newUnit(name string, p *exact.Policy) unit {
	u := unit{name: name, policy: p, most: storeless.MaxQuota}
	for i := range p.Len() {
		l := p.Limit(i)
		u.emits = max(u.emits, (l.Window+time.Duration(l.Quota)-1)/time.Duration(l.Quota))
		u.most = min(u.most, l.Burst)
	}
	return u
}

// read returns the costs of a call.
func read(units []unit, given []Cost) (c costs, err error) {
	if units[0].name == "" {
		c[0] = 1
	}
	for _, g := range given {
		i := slices.IndexFunc(units, func(u unit) bool { return u.name == g.Unit })
		switch {
		case i < 0:
			return c, fmt.Errorf("%w: pace: no limit counts %q", exact.ErrNotCounted, g.Unit)
		case g.N < 0:
			return c, fmt.Errorf("%w: pace: the cost in %q is %d, below 0", exact.ErrNotCounted, g.Unit, g.N)
		case g.N > units[i].most:
			return c, fmt.Errorf("%w: %d of %q, where %d is the most at once", ErrImpossible, g.N, g.Unit, units[i].most)
		}
		c[i] = g.N
	}
	return c, nil
}

// takes returns how long it takes at least until what a call uses is free again.
func (c *costs) takes(units []unit) (d time.Duration) {
	for i, u := range units {
		d = max(d, time.Duration(c[i])*u.emits)
	}
	return d
}
