// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A Tariff says what an own tally costs an identity. It is plain data;
// [Tariff.Compile] checks it.
//
// The price follows a level, which a sale raises by one, and which falls by
// 4·Crowd within Memory, evenly. At level 0 a tally costs Work; with every Crowd
// that the level rises the price doubles, and between two doublings it rises in a
// straight line. So what a client gains grows with the logarithm of what it pays,
// and with what leaks: see the package documentation.
type Tariff struct {
	// Work is in expected hashes. Permitted: 16 to 2²⁹.
	Work int64

	// Crowd is how many honest clients one address is expected to hide.
	// Permitted: 1 to 255.
	Crowd int64

	// Memory is the time in which 4·Crowd sales leak away. Permitted: whole seconds,
	// from one minute to one day.
	Memory time.Duration
}

// MaxPrice is the highest price in expected hashes. Where the next tally would cost
// more, none is for sale.
const MaxPrice = 1 << 32

// Prices are a compiled [Tariff]: immutable, safe for concurrent use.
type Prices struct {
	work, crowd int64
	memory      int64 // seconds
	doublings   int64 // of work, up to MaxPrice
}

// Compile checks t. It reports all problems at once, each a [storeless.ConfigError] whose
// Field is Work, Crowd or Memory.
func (t Tariff) Compile() (*Prices, error) {
	var errs []error
	if t.Work < 16 || t.Work > 1<<29 {
		errs = append(errs, &storeless.ConfigError{Field: "Work", Problem: fmt.Sprintf("must be from 16 to %d expected hashes, not %d: a tally that costs nothing is no limit", 1<<29, t.Work)})
	}
	if t.Crowd < 1 || t.Crowd > 255 {
		errs = append(errs, &storeless.ConfigError{Field: "Crowd", Problem: fmt.Sprintf("must be from 1 to 255, not %d", t.Crowd)})
	}
	if t.Memory < time.Minute || t.Memory > 24*time.Hour || t.Memory%time.Second != 0 {
		errs = append(errs, &storeless.ConfigError{Field: "Memory", Problem: fmt.Sprintf("must be whole seconds, from 1m to 24h, not %s", t.Memory)})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	p := &Prices{work: t.Work, crowd: t.Crowd, memory: int64(t.Memory / time.Second)}
	for p.work<<(p.doublings+1) <= MaxPrice {
		p.doublings++
	}
	return p, nil
}

// A sale is so many parts of a level: a level is counted in parts, and what has
// leaked is rounded down to them, so that no price is ever lower than the exact one.
const salePart = 1 << 15

// maxLevel is the largest level that a cell holds: 31 bits.
const maxLevel = 1<<31 - 1

// crowdOf returns the crowd of a buyer, in parts. A buyer of none is one of one: a
// mistake must be no free pass, and no lockout. The largest is the one whose highest
// level a cell can hold, of some 2000 sales at the least Work and 4000 at the default.
func (p *Prices) crowdOf(crowds int64) int64 {
	largest := maxLevel/(p.doublings+2) - salePart
	return min(p.crowd*min(max(crowds, 1), maxLevel), largest/salePart) * salePart
}

// at returns the price at a level, rounded up; more than MaxPrice if none is for sale.
func (p *Prices) at(level, crowd int64) int64 {
	doubled, rest := level/crowd, level%crowd
	if doubled > p.doublings {
		return MaxPrice + 1
	}
	price := p.work << doubled
	return price + (price*rest+crowd-1)/crowd
}

// top returns the highest level at which a tally is for sale.
func (p *Prices) top(crowd int64) int64 {
	price := p.work << p.doublings
	return p.doublings*crowd + (MaxPrice-price)*crowd/price
}

// leakOf returns how a level of a crowd leaks.
func (p *Prices) leakOf(crowd int64) leak { return leak{parts: 4 * crowd, within: p.memory} }

// counted returns in how many seconds it is counted what a provider takes of the cells for sales,
// and again in as many: a Crowd leaks in that time, and a proof is not good for longer. A cell is
// kept for longer than both only by buying more.
func (p *Prices) counted() int64 { return max(300, p.memory/4) }

// A leak is how many parts of a level leak away within how many seconds.
type leak struct{ parts, within int64 }

// in returns what leaks in so many seconds, rounded down.
func (k leak) in(seconds int64) int64 { return seconds * k.parts / k.within }

// time returns in how many seconds so much has leaked, rounded up.
func (k leak) time(parts int64) int64 { return (parts*k.within + k.parts - 1) / k.parts }
