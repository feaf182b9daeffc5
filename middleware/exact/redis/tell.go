// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"math"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
	"github.com/tallystick/tallystick/storeless"
)

// What take.lua says of a call.
const (
	refused = iota
	admitted
	refusedBefore
	admittedBefore
	bookedBefore
)

// tell makes verdicts from the script's answer: it takes the calls again from the
// account's former state.
func (e *batcher) tell(calls []exact.Call, charge, booked bool, said string) ([]exact.Verdict, error) {
	p := calls[0].Policy
	words := reply{rest: said}
	now := time.UnixMicro(words.double())
	latest := words.double()
	if latest < 0 {
		e.alarms.wrongClock(time.Duration(-latest) * time.Microsecond)
		latest = 0
	}
	var limits [storeless.MaxLimits]engine.LimitSnapshot
	before := engine.Snapshot{
		Latest: latest * 1000, Hold: p.Plan().Hold, Limits: limits[:p.Len()],
		Serial: uint64(words.double()), Paused: words.double() * 1000,
	}
	for i := range before.Limits {
		of := &before.Limits[i]
		of.ID, of.Ends = p.ID(i), math.MaxInt64
		switch kindOf(p, i) {
		case 'T':
			of.Used = words.double()
			for range words.uint16() {
				of.Charges = append(of.Charges, [2]int64{words.double() * 1000, words.double()})
			}
		case 'B':
			of.At = words.double()
		default:
			window(of, words.uint32(), words.uint32(), words.uint32())
		}
	}
	if booked {
		words.booked(p, &before)
	}
	a := before.Account()
	verdicts := make([]exact.Verdict, len(calls))
	for i := range calls {
		v := &verdicts[i]
		switch what := words.byte(); what {
		case refused, admitted:
			if charge {
				*v = a.Take(now, &calls[i])
			} else {
				*v = a.Peek(now, &calls[i])
			}
			if v.Admitted != (what == admitted) {
				return nil, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReply)
			}
		case refusedBefore:
			*v = a.Peek(now, &calls[i])
			if v.Replayed = true; v.Admitted {
				v.Admitted, v.Wait = false, time.Second // it would pass now, and was told not to
			}
		case admittedBefore, bookedBefore:
			v.Admitted = true
			v.Receipt = words.receipt(&calls[i], what == bookedBefore)
			*v = a.Replay(now, *v, &calls[i])
		default:
			return nil, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReply)
		}
	}
	return verdicts, words.whole()
}

// booked reads what is booked.
func (r *reply) booked(p *exact.Policy, s *engine.Snapshot) {
	s.Booked, s.Since = r.double(), uint64(r.double())
	for i := range p.Len() {
		if s.Booked == 0 || kindOf(p, i) != 'B' {
			continue
		}
		l := &s.Limits[i]
		l.Base = r.double()
		for range r.uint16() {
			l.Holes = append(l.Holes, [2]int64{r.double(), r.double()})
		}
	}
}

// receipt reads the receipt of a call that was admitted before; a call that only paused its key
// has none.
func (r *reply) receipt(call *exact.Call, booked bool) exact.Receipt {
	limits := byte(0)
	if booked {
		limits = r.byte()
	}
	at, serial, cost := r.double(), r.double(), r.double()
	if serial <= 0 {
		return exact.Receipt{}
	}
	written := receipt.Serial{Number: uint64(serial), Cost: cost}
	if booked {
		at, written.From = r.double(), make([]int64, limits)
		for i := range written.From {
			written.From[i] = r.double()
		}
		if call.Costs != (costs{}) {
			written.Each = call.Costs[:limits]
		}
	}
	return exact.Receipt{Key: call.Key, Policy: call.Policy, At: time.UnixMicro(at), Serial: written.String(), Cost: cost, Costs: call.Costs}
}
