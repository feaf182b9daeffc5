// SPDX-License-Identifier: Apache-2.0

package sale

import (
	"errors"
	"fmt"
	"math"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Tariff says what an own tally costs an identity. It is plain data;
// [Tariff.Compile] checks it.
//
// The price follows a level. A sale raises it by one, and it leaks. At level 0 a tally
// costs Work. The price doubles with every Crowd that the level rises, and rises in a
// straight line between. So a client's gain grows with the logarithm of its payment, and
// with what leaks: see the package documentation.
//
// Crowd is a burst and SalesPerHour a rate. With one number for both, a school of 300 that
// came within five minutes shut itself out without any attack: a quarter got in.
type Tariff struct {
	// Work is in expected hashes. Permitted: 16 to 2²⁹.
	Work int64

	// Crowd is how many honest clients one address is expected to hide.
	// Permitted: 1 to 255.
	Crowd int64

	// SalesPerHour is how many sales of an identity leak in an hour, evenly: it can always
	// buy this many for Work. A network of n crowds leaks n times as much. Permitted: 1 to
	// 100000.
	SalesPerHour int64
}

// MaxPrice is the highest price in expected hashes. Above it no tally is for sale.
const MaxPrice = 1 << 32

// Prices are a compiled [Tariff]: immutable, safe for concurrent use.
type Prices struct {
	work, crowd int64
	hourly      int64 // sales of an identity
	doublings   int64 // of work, up to MaxPrice
}

// Compile checks t. It reports all problems at once, each a [limiter.Problem] whose
// Field is Work, Crowd or SalesPerHour.
func (t Tariff) Compile() (*Prices, error) {
	var errs []error
	if t.Work < 16 || t.Work > 1<<29 {
		errs = append(errs, &limiter.Problem{Field: "Work", Problem: fmt.Sprintf("must be from 16 to %d expected hashes, not %d: a tally that costs nothing is no limit", 1<<29, t.Work)})
	}
	if t.Crowd < 1 || t.Crowd > 255 {
		errs = append(errs, &limiter.Problem{Field: "Crowd", Problem: fmt.Sprintf("must be from 1 to 255, not %d", t.Crowd)})
	}
	if t.SalesPerHour < 1 || t.SalesPerHour > 100_000 {
		errs = append(errs, &limiter.Problem{Field: "SalesPerHour", Problem: fmt.Sprintf("must be from 1 to 100000, not %d", t.SalesPerHour)})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	p := &Prices{work: t.Work, crowd: t.Crowd, hourly: t.SalesPerHour}
	for p.work<<(p.doublings+1) <= MaxPrice {
		p.doublings++
	}
	return p, nil
}

// salePart is how many parts a sale adds to a level. The leak is rounded down to
// parts, so no price is lower than the exact one.
const salePart = 1 << 15

// maxLevel is the largest level that a cell holds: 31 bits.
const maxLevel = 1<<31 - 1

// crowdOf returns the crowd of a buyer, in parts. No crowd counts as one: a mistake
// must be no free pass and no lockout. The largest crowd is one whose highest level
// fits a cell: some 2000 sales at the lowest Work and 4000 at the default.
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

const hour = 3600 // seconds

// leakOf returns how the level of a crowd leaks: faster in proportion to its
// size.
func (p *Prices) leakOf(crowd int64) leak {
	return leak{parts: p.hourly * crowd, within: hour * p.crowd}
}

// counted returns the seconds of one of the two windows in which a provider's
// cells for sales are counted. A Crowd leaks in that time, and no proof lives
// longer. A cell outlives both windows only if its buyer buys more than two
// Crowds. Rejected: the time in which eight sales leak. Ledgers that a provider
// has filled up to twice the price outlast it many times, so it takes its share
// again and again.
func (p *Prices) counted() int64 { return max(300, p.crowd*hour/p.hourly) }

// A leak is how many parts of a level leak away within how many seconds.
type leak struct{ parts, within int64 }

// in returns the parts that leak in some seconds, rounded down.
func (k leak) in(seconds int64) int64 { return seconds * k.parts / k.within }

// time returns the seconds in which some parts leak, rounded up.
func (k leak) time(parts int64) int64 { return (parts*k.within + k.parts - 1) / k.parts }

// Most returns the most tallies that the instances sell within a time to a buyer of some crowds, for an amount of work in
// all. It is the bound of the package documentation, which is largest where the buyer spends as much at each
// instance; no tally costs less than Work, and no level rises beyond the highest price.
func (p *Prices) Most(instances, crowds, seconds, work int64) int64 {
	parts := p.crowdOf(crowds)
	all, k := float64(instances*(parts/salePart)), p.leakOf(parts)
	paid := all * math.Log2(1+15*float64(work)/(8*all*float64(p.work)))
	paid = min(paid, float64(instances*(p.top(parts)/salePart+1)))
	leaked := float64(instances*seconds) * float64(k.parts/salePart) / float64(k.within)
	return min(work/p.work, int64(leaked+paid))
}
