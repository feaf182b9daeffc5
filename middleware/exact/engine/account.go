// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
	"github.com/tallystick/tallystick/storeless"
)

// An Account holds what one key has counted under the policies of one name: all of a counter but
// where it is kept. It is for authors of an [exact.Counter] on an engine that can keep some bytes:
// load, decide, store. It is pure, and the clock is an argument; it is not safe for concurrent use.
// The zero Account has counted nothing.
//
// Its time does not step back, or an earlier window would be a fresh quota: where the
// clock has, the account stands still until the clock is there again, and the waits that
// it tells last as long. But it does so for its longest window alone, or for the time in
// which its slowest bucket empties. An account from further ahead was charged by a clock
// that was wrong, and begins anew, once: or one wrong second would lock its key out for as
// long as the clock was ahead.
//
// It carries what else there is to know of its key: debts beyond the limits (Call.Past), which no
// clock takes for its own fault, so that it stands still for them as well; what is booked
// (Call.Ahead) and what of that was given back, in 64 places for each limit at most; the end of a
// pause; and the last 128 admitted calls with an ID, each for [exact.IDLife], so that a call is
// counted once whichever process asks again. If there are more than 128 in that time, the oldest
// are forgotten early, and would be charged again. An ID takes some 30 bytes of what is stored. And
// it knows which of the last [Refundable] charges came back: that takes a kilobyte at most, some
// bytes where all of them do, and none where none does.
//
// A policy leaves limits alone that it does not have: requests under an old configuration and a new
// one may be on their way at the same time. Only a charge or a refund changes anything: a clock
// that was wrong for a moment, while nothing was charged, leaves no trace.
type Account struct {
	entries []entry
	latest  int64   // Unix ns of the last charge: time does not step back behind it
	hold    int64   // for how long, in ns, it stands still there at most
	serial  uint64  // of the last receipt
	refunds refunds // which do not come back any more
	paused  int64   // Unix ns before which nothing is admitted
	booked  int64   // the last moment for which a call is, Unix µs; 0: none is ahead
	since   uint64  // if one is, the last receipt from before the first
	answers answers
}

type entry struct {
	id    uint32
	ends  int64 // Unix second from which it counts nothing
	state limiter.State
	log   chargeLog // or
	line  *timeline // of a bucket, while calls are booked; or nil
}

// maxEntries bounds what policies of one name may leave behind: beyond it, what ends
// first is forgotten.
const maxEntries = 4 * storeless.MaxLimits

// Take decides a call and charges it if it is admitted: then, and only then, the account has
// changed and must be stored. A call whose ID the account has admitted before is not charged
// again, see [Account]; an engine that keeps [Idempotency] takes the call without its ID.
func (a *Account) Take(now time.Time, call *exact.Call) exact.Verdict {
	from, at := a.at(now)
	if v, found := from.answers.find(at, call); found {
		return a.Replay(now, v, call)
	}
	s := from.open(at, call.Policy.Plan())
	v := exact.Verdict{Verdict: s.take(call, true)}
	if !v.Admitted {
		later(&v, at.Sub(now))
		return v
	}
	if from != a {
		*a = *from
	}
	if call.Cost > 0 {
		if a.serial == 0 {
			a.serial = firstSerial(at)
			a.refunds.floor = a.serial
		}
		price := plan.Price(call.Cost, &call.Costs)
		a.serial += numbersOf(price, call.Policy)
		serial := receipt.Serial{Number: a.serial, Cost: call.Cost, From: s.paid}
		if price.Each != nil {
			serial.Each = call.Costs[:call.Policy.Len()]
		}
		v.Receipt = exact.Receipt{Key: call.Key, Cost: call.Cost, Costs: call.Costs, Policy: call.Policy, At: at, Serial: serial.String()}
		if s.moment > unixMicro(at) {
			v.Receipt.At = time.UnixMicro(s.moment)
		}
	}
	a.latest = at.UnixNano()
	a.store(&s)
	if call.ID != "" {
		a.answers = a.answers.keep(at, call.ID, &v.Receipt)
	}
	stand(&v, now, at)
	return v
}

// Peek says what Take would.
func (a *Account) Peek(now time.Time, call *exact.Call) exact.Verdict {
	from, at := a.at(now)
	s := from.open(at, call.Policy.Plan())
	v := exact.Verdict{Verdict: s.take(call, false)}
	stand(&v, now, at)
	return v
}

// Replay completes what [Idempotency] has found: with how the limits stand now, which
// would be long to keep, and with how long a call that was booked has to wait still.
func (a *Account) Replay(now time.Time, v exact.Verdict, call *exact.Call) exact.Verdict {
	asks := exact.Call{Key: call.Key, Cost: call.Cost, Costs: call.Costs, Policy: call.Policy}
	if v.Admitted {
		asks.Cost, asks.Costs = 0, limiter.Costs{}
		if _, at := a.at(now); v.Receipt.At.After(at) { // or it was charged before a clock stepped back
			v.Wait = v.Receipt.At.Sub(now)
		}
	}
	of := a.Peek(now, &asks)
	v.Limits = of.Limits
	v.Replayed = true
	return v
}

// Refund gives back a charge of this account, once, while it counts, and if it is among the
// last [Refundable]. It returns nil, and then the account has changed and must be stored; or
// [exact.ErrNoRefund], which may be [exact.ErrLateRefund]. It bears any receipt.
func (a *Account) Refund(now time.Time, r *exact.Receipt) error {
	is, ok := receipt.Parse(r)
	if !ok || is.Number == 0 || is.Number > a.serial {
		return exact.ErrNoRefund // made up, or of an account before this one
	}
	from, now := a.at(now)
	left := *r
	switch {
	case from != a || countsUntil(r.Policy.Plan(), r.At, r.Cost) <= now.UnixNano():
		return exact.ErrNoRefund
	case a.serial-is.Number+numbersOf(plan.Price(r.Cost, &r.Costs), r.Policy) > Refundable:
		return exact.ErrLateRefund
	case !a.give(is.Number, &left): // it was before, or a clock that was wrong has charged it
		return exact.ErrNoRefund
	}
	s := a.open(now, r.Policy.Plan())
	s.refund(&left, is)
	a.store(&s)
	return nil
}

// numbersOf returns how many numbers a charge has: if it costs something else on each limit, a number for each, so
// that it comes back on each once. The last belongs to the first limit. Fewer charges of this kind fit among the last
// [Refundable] numbers.
func numbersOf(price limiter.Price, p *exact.Policy) uint64 {
	if price.Each == nil {
		return 1
	}
	return uint64(p.Len())
}

// give notes what comes back of a charge, and leaves in r what did not before. It reports whether there is any.
func (a *Account) give(number uint64, r *exact.Receipt) (any bool) {
	if r.Costs == (limiter.Costs{}) {
		return a.refunds.give(number, a.serial)
	}
	for i := range r.Costs {
		if of := number - uint64(i); r.Costs[i] > 0 && of < number+1 && a.refunds.give(of, a.serial) {
			any = true
		} else {
			r.Costs[i] = 0
		}
	}
	return any
}

// Expires returns when the last count of the account ends, by the clock that charged it: the
// zero time if it counts nothing. An engine may then forget it, and
// can leave that to a time to live or an index of its store; one that sweeps has an [IdleClock].
// Store it again with what
// Expires says after each Take that admits and each Refund: it may be sooner than before.
func (a *Account) Expires() (at time.Time) {
	var last int64 // Unix ns
	for i := range a.entries {
		last = max(last, a.entries[i].ends*int64(time.Second))
	}
	if a.paused > a.latest {
		last = max(last, a.paused)
	}
	if last = max(last, a.answers.end()); last == 0 {
		return at
	}
	return time.Unix(0, last)
}

// at returns the account as it is to be decided, and when: now, or the latest time seen where a
// clock has stepped back. Charges by a clock that was wrong count nothing, but no serial is given
// twice, and no refund.
func (a *Account) at(now time.Time) (*Account, time.Time) {
	switch ns := now.UnixNano(); {
	case ns >= a.latest:
		return a, now
	case a.latest-ns > a.hold:
		return &Account{serial: a.serial, refunds: refunds{floor: a.serial}}, now
	}
	return a, time.Unix(0, a.latest)
}

// stand has a verdict of an account that stands still tell the truth: all takes longer.
func stand(v *exact.Verdict, now, at time.Time) {
	wait, booked := v.Wait+at.Sub(now), v.Admitted && v.Wait > 0
	later(v, at.Sub(now))
	if booked {
		v.Wait = wait // to the moment, not in whole seconds
	}
}

// later adds to what a verdict says of an account that stands still how long that lasts.
func later(v *exact.Verdict, by time.Duration) {
	if by <= 0 {
		return
	}
	by = wholeSeconds(int64(by))
	if v.Wait > 0 {
		v.Wait += by
	}
	for i := range v.Limits {
		if v.Limits[i].Reset > 0 {
			v.Limits[i].Reset += by
		}
	}
}

// entry returns what a limit has counted, or nil.
func (a *Account) entry(id uint32) *entry {
	for i := range a.entries {
		if a.entries[i].id == id {
			return &a.entries[i]
		}
	}
	return nil
}

// open returns the account under the limits of a policy, at a time.
func (a *Account) open(now time.Time, p *plan.Plan) (s view) {
	s.policy, s.now, s.moment = p, now, unixMicro(now)
	s.paused, s.serial = a.paused, a.serial
	if p.HasLog {
		s.logs = make([]chargeLog, len(p.Limits))
	}
	for i := range p.Limits {
		e := a.entry(p.IDs[i])
		switch {
		case e == nil:
		case p.Logged(i):
			s.logs[i] = e.log
			s.logs[i].roll(now.UnixNano())
		default:
			s.tally[i] = e.state
		}
	}
	if a.booked > 0 {
		s.booked, s.since = a.booked, a.since
		a.openLines(&s)
	}
	return s
}

// openLines adds what a view needs while calls are booked, and ends that when the
// moment of the last has come.
func (a *Account) openLines(s *view) {
	s.lines = make([]timeline, len(s.policy.Limits))
	for i := range s.policy.Limits {
		e, mark := a.entry(s.policy.IDs[i]), &s.tally[i].At
		if s.policy.Interval[i] == 0 {
			continue
		}
		l := &s.lines[i]
		if e != nil && e.line != nil {
			*l = timeline{e.line.base, slices.Clone(e.line.holes)}
		} else { // of a limit that is new
			l.base = max(*mark, s.moment)
		}
		if s.booked <= s.moment {
			*mark = l.close(s.moment, *mark)
		}
		l.pass(s.moment)
	}
	if s.booked <= s.moment {
		s.lines, s.booked = nil, 0
	}
}

// store puts back what a view has changed, and forgets what has ended.
func (a *Account) store(s *view) {
	second := s.now.Unix()
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.ends <= second })
	if !slices.ContainsFunc(a.entries, func(e entry) bool { return !slices.Contains(s.policy.IDs[:], e.id) }) {
		a.hold = 0 // nothing of another policy is left
	}
	a.hold = max(a.hold, s.policy.Hold, s.paused-a.latest)
	a.paused, a.booked, a.since = s.paused, s.booked, s.since
	for i := range s.policy.Limits {
		id := s.policy.IDs[i]
		e := a.entry(id)
		if e == nil {
			if len(a.entries) == maxEntries {
				first := slices.IndexFunc(a.entries, func(e entry) bool { return !slices.Contains(s.policy.IDs[:], e.id) })
				for j := range a.entries {
					if a.entries[j].ends < a.entries[first].ends && !slices.Contains(s.policy.IDs[:], a.entries[j].id) {
						first = j
					}
				}
				a.entries = slices.Delete(a.entries, first, first+1)
			}
			a.entries = append(a.entries, entry{id: id})
			e = &a.entries[len(a.entries)-1]
		}
		if s.policy.Logged(i) {
			e.log = s.logs[i]
		} else {
			e.state = s.tally[i]
		}
		if s.policy.Interval[i] > 0 { // a debt, or a booking, is no fault of a clock
			a.hold = max(a.hold, e.state.At*int64(time.Microsecond)-a.latest)
		}
		e.line = nil
		if s.lines != nil && s.policy.Interval[i] > 0 {
			e.line = &s.lines[i]
		}
		e.ends = s.ends(i)
	}
	if a.booked == 0 {
		for i := range a.entries {
			a.entries[i].line = nil
		}
	}
}

// countsUntil returns from when a charge made at a time counts in no window of p, and no
// bucket owes it, in Unix ns.
func countsUntil(p *plan.Plan, at time.Time, cost int64) (last int64) {
	for i := range p.Limits {
		l := &p.Limits[i]
		w := int64(l.Window)
		switch {
		case p.Logged(i):
			last = max(last, until(p, i, at))
		case l.Algorithm == storeless.SlidingWindow:
			last = max(last, (at.UnixNano()/w+2)*w)
		case l.Algorithm == storeless.FixedWindow:
			last = max(last, (at.UnixNano()/w+1)*w)
		default:
			owed := min(cost, plan.MaxDebt/p.Interval[i]) * p.Interval[i] * int64(time.Microsecond)
			last = max(last, at.UnixNano()+max(w, owed))
		}
	}
	return last
}
