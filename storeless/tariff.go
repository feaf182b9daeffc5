package storeless

import (
	"errors"
	"fmt"
	"time"
)

// A Tariff says what an own tally costs an identity. It is plain data;
// [Tariff.Compile] checks it.
//
// The first Crowd tallies of an identity cost Work; with every further Crowd
// the price doubles. F tallies therefore cost at least
// Crowd·Work·(2^(F/Crowd) − 1) on an instance: what a client gains grows with
// the logarithm of what it pays. At most [MaxCrowds]·Crowd tallies are sold to
// an identity within Memory.
type Tariff struct {
	// Work is in expected hashes. Permitted: 16 to 2²⁹.
	Work int64

	// Crowd is how many honest clients one address is expected to hide.
	// Permitted: 1 to 255.
	Crowd int64

	// Memory is how long a sale is remembered, at least; at most a third
	// longer, and three seconds where it is no multiple of three. Sales that
	// were made under another Memory may be forgotten sooner. Permitted: whole
	// seconds, from one minute to one day.
	Memory time.Duration
}

// MaxCrowds is how many times Crowd tallies an identity may buy within Memory.
// The last of them cost eight times the first.
const MaxCrowds = 4

// Prices are a compiled [Tariff]: immutable, safe for concurrent use.
type Prices struct {
	work, crowd int64
	slot        int64 // seconds; sales are counted in slots of a third of Memory
}

// Compile checks t. It reports all problems at once, each a [ConfigError] whose
// Field is Work, Crowd or Memory.
func (t Tariff) Compile() (*Prices, error) {
	var errs []error
	if t.Work < 16 || t.Work > 1<<29 {
		errs = append(errs, &ConfigError{"Work", fmt.Sprintf("must be from 16 to %d expected hashes, not %d: a tally that costs nothing is no limit", 1<<29, t.Work)})
	}
	if t.Crowd < 1 || t.Crowd > 255 {
		errs = append(errs, &ConfigError{"Crowd", fmt.Sprintf("must be from 1 to 255, not %d", t.Crowd)})
	}
	if t.Memory < time.Minute || t.Memory > 24*time.Hour || t.Memory%time.Second != 0 {
		errs = append(errs, &ConfigError{"Memory", fmt.Sprintf("must be whole seconds, from 1m to 24h, not %s", t.Memory)})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Prices{work: t.Work, crowd: t.Crowd, slot: (int64(t.Memory/time.Second) + saleSlots - 2) / (saleSlots - 1)}, nil
}

// at returns the price of the next tally for a buyer of so many crowds who has
// bought sold tallies; 0 if none is for sale.
func (p *Prices) at(sold, crowds int64) int64 {
	crowd := p.crowd * crowds
	if sold >= min(MaxCrowds*crowd, maxSales) {
		return 0
	}
	return p.work << (sold / crowd)
}

const (
	// saleSlots is how many slots a ledger has: one that fills, and three that
	// make up the time for which every sale is remembered.
	saleSlots = 4

	// maxSales is what a slot can count, and so the most that a ledger may: a
	// network may be expected to hold any number of crowds.
	maxSales = 1<<16 - 1
)
