// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/storeless"
)

// Refund gives back what the request was charged: in memory, on the counter of a route
// with one and, while the response header is not yet written, in the token and the RateLimit
// fields that go with it. It is for a handler that could not do what the request has paid for,
// and is called on the handler's goroutine. A proof of work that the request has spent stays spent.
//
// It is [Settle] with a cost of 0 in every unit that is not settled yet, and there the errors are told.
func Refund(w http.ResponseWriter, r *http.Request) error { return settle(r, w, 0, everyUnit) }

// everyUnit stands for all units, by its place: a caller may name any string.
var everyUnit = []string{""}

func isEvery(units []string) bool { return len(units) > 0 && &units[0] == &everyUnit[0] }

// Settle says what the request has cost, in place of what Config.Cost said before: model tokens,
// bytes, rows. If the estimate was too high, the rest is given back, in the windows in which it was
// charged. If it was too low, the rest is charged, even past the limit. Then the client is refused
// until its limits have room again. So a limit of L admits L in a window, plus the amount by which
// requests under way were underestimated. A bucket may go into debt beyond its burst, by at most
// what it admits in a window. What a settlement charges above that is lost; on an exact counter,
// only what is above a year's. [Concurrency] bounds how many are under way.
//
// It may be called at any time, after the response too, from any goroutine. While the response
// header is not yet written, the token and the RateLimit fields that go with it say what was
// settled. After that only the memory of this instance knows. Other instances learn of the charge
// from the client's next token from here. So a client that spreads its requests over N instances
// may use N times L, as one that drops its tokens can. A refund is lost for a client that still
// shows the token sent before, because that token says more. On a route with an [Exact] counter
// neither matters: the counter knows.
//
// Where the policy has [Config].Units, it settles the limits that count Config.Cost, or those that count the units named, "" being
// Config.Cost, and each unit once:
//
//	err := middleware.Settle(r, usage.Total, "tokens")
//
// A unit that the policy does not have is an error, and nothing was done.
//
// A request that cost 0 has charged nothing, and cannot be settled: estimate 1 at least. Where several middlewares are
// stacked, the innermost is meant. It works once for each request; if there is nothing to settle any more, or never
// was, the error is [exact.ErrNoRefund], and [exact.ErrLateRefund] where the charge is not one of the last 8192 of this
// client. Any other error is the counter's: after it Settle may be called again with the same cost and units. After
// [exact.ErrNotCounted] nothing was done. Otherwise the answer was lost twice, and the next call finds out: a counter
// gives a charge back once, however often it is asked, and recognizes a charge that is repeated within [exact.IDLife].
// A refusal is believed for some seconds. So another instance that has refused the client meanwhile refuses it for at
// most ten seconds more, and for five if the client shows a token that tells of the refusal. A negative cost is an
// error.
func Settle(r *http.Request, cost int64, units ...string) error { return settle(r, nil, cost, units) }

// settle settles what a request has cost.
func settle(r *http.Request, w http.ResponseWriter, cost int64, units []string) error {
	dc := contextOf(r.Context())
	if dc == nil {
		return errUncharged
	}
	return dc.settle(r.Context(), w, cost, units)
}

// settle settles what was decided about. The guard sees to the token that it sends; w, if
// not nil, may be of a handler that writes past it.
func (dc *decisionContext) settle(ctx context.Context, w http.ResponseWriter, cost int64, units []string) error {
	if cost < 0 {
		return fmt.Errorf("middleware: a request cannot have cost %d", cost)
	}
	limits, err := dc.decision.engine.limitsIn(units)
	if err != nil {
		return err
	}
	if !dc.charged {
		return errUncharged
	}
	is := settlement{cost: min(cost, storeless.MaxQuota)}
	for was := dc.settled.Load(); ; was = dc.settled.Load() {
		is.limits = dc.decision.chargedOf(limits &^ uint8(was))
		if is.limits == 0 || !isEvery(units) && is.limits != limits {
			return errUncharged
		}
		if dc.settled.CompareAndSwap(was, was|uint32(is.limits)) {
			break
		}
	}
	if err = dc.decision.engine.settle(ctx, dc, w, is); again(err) {
		dc.settled.And(^uint32(is.limits)) // nothing was done, or it is not known: ask again
	}
	return err
}

// limitsIn returns the limits that count these units, "" being Config.Cost; of none, those that count Config.Cost.
func (e *engine) limitsIn(units []string) (limits uint8, err error) {
	all := uint8(1<<e.base.policy.Len() - 1)
	byCost := all
	for i := range e.units {
		byCost &^= e.units[i].limits
	}
	switch {
	case len(units) == 0:
		return byCost, nil
	case isEvery(units):
		return all, nil
	}
	for _, name := range units {
		i := slices.IndexFunc(e.units, func(u unit) bool { return u.name == name })
		switch {
		case i >= 0:
			limits |= e.units[i].limits
		case name == "":
			limits |= byCost
		default:
			return 0, fmt.Errorf("middleware: the policy has no unit %q", name)
		}
	}
	return limits, nil
}

// A settlement has some limits, a bit for each, be charged a cost in place of what they were.
type settlement struct {
	limits uint8
	cost   int64
}

// chargedOf returns the limits among these that were charged anything.
func (d *record) chargedOf(limits uint8) uint8 {
	for i := range storeless.MaxLimits {
		if i >= d.engine.base.policy.Len() || d.price().Of(i) == 0 {
			limits &^= 1 << i
		}
	}
	return limits
}

// price is what the request has cost before it was settled.
func (d *record) price() limiter.Price {
	if u := d.units(); u != nil {
		return limiter.Price{Cost: d.Cost, Each: &u.costs}
	}
	return limiter.Price{Cost: d.Cost}
}

// changes returns what is charged more, and what is given back.
func (d *record) changes(is settlement) (more, less exact.Call) {
	for i := range storeless.MaxLimits {
		if change := is.cost - d.price().Of(i); !has(is.limits, i) {
			continue
		} else if change > 0 {
			more.Cost, more.Costs[i] = max(more.Cost, change), change
		} else {
			less.Cost, less.Costs[i] = max(less.Cost, -change), -change
		}
	}
	return more, less
}

// giveBackOutside gives back what the policies around this one have charged for a request that this one refuses: a refusal
// charges nothing. Else one client that is refused here would use up the limit of all. It is for their own response alone: a
// handler that serves a batch has done its work, whatever becomes of a part of it.
//
// The charge of an outer policy stays where it bounds what a refusal like this one costs the program: a guess at
// credentials, and a call of an exact counter. For what else stays see givesBack.
func (dc *decisionContext) giveBackOutside(now time.Time, w http.ResponseWriter) {
	switch d := &dc.decision; {
	case d.Reason == IdentityUnknown, d.Reason == IdentityUnavailable, d.Reason == IdentityDenied, d.Reason == NegativeCost,
		d.extras != nil && d.extras.Call != "":
		return
	}
	for o := contextOf(dc.Context); o != nil && o.reply.Answers(w); o = contextOf(o.Context) {
		if o.charged && o.decision.chargedOf(^uint8(o.settled.Load())) != 0 && o.givesBack(now) {
			_ = o.settle(o.Context, w, 0, everyUnit) // no counter is asked, so that nothing fails
		}
	}
}

// givesBack reports whether a charge comes back where an inner policy refuses. An exact counter would be called once more
// for each refusal, and the response would wait for that. In [WhenBusy] the request was counted as load, so that a client
// that is refused inside could keep an instance busy for nothing. A ticket of the waiting room is used. And a response that has
// begun is no refusal.
func (dc *decisionContext) givesBack(now time.Time) bool {
	e := dc.decision.engine
	if e.exact != nil {
		e.checks.warn(now, exactOutside)
		return false
	}
	return !dc.decision.FromWaitingRoom && !dc.reply.Fields.Finalized() && (e.challenge == nil || e.challenge.mode != WhenBusy)
}

var errUncharged = fmt.Errorf("%w: this request was not charged, is settled already, or is not the one that the limiter has passed on", exact.ErrNoRefund)

// Charge says whether the request counts in the limits of [ByOutcome], whatever its status is: for
// handlers whose status does not tell, because they redirect in either case, or stream. The last
// call holds, also after the response and after the ten seconds; only a handler that panics is
// charged all the same. The token says it if the response header is not yet written; otherwise only
// the memory of this instance knows. Where several middlewares are stacked, all are told. It does
// nothing where no limit counts by outcome, and may be called from any goroutine.
func Charge(r *http.Request, counts bool) {
	// A log-in has a policy for the address and one for the account, and the guess was one in both.
	for dc := contextOf(r.Context()); dc != nil; dc = dc.outer() {
		if p := dc.heldCharge(); p != nil {
			p.say(counts)
		}
	}
}

// reissueToken has the token say what is counted by now.
func (e *engine) reissueToken(now time.Time, dc *decisionContext) {
	q, f := e.reopen(now, dc)
	f.Networks = nil
	tally, _ := q.memory.Take(q.at, q.who.tier.policy, &f, 0)
	q.reissue(answerFields{own: q.dc.own, tally: &tally}, nil)
}

// settle changes the charge of a request.
func (e *engine) settle(ctx context.Context, dc *decisionContext, w http.ResponseWriter, is settlement) (late error) {
	d := &dc.decision
	more, less := d.changes(is)
	change := changed{more: more.Costs, less: less.Costs}
	if u := d.units(); u != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
	}
	now := e.now()
	change.at, change.then = now, time.UnixMicro(dc.reply.Fields.Now)
	if d.extras != nil && d.extras.exactCharge != nil {
		if more.Cost == 0 && less.Cost == 0 {
			return nil // by this clock the token would lie in another window than the charge
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.exact.Deadline)
		defer cancel()
		c := d.extras.exactCharge
		if d.units() == nil {
			more.Costs, less.Costs = limiter.Costs{}, limiter.Costs{}
		}
		if late = e.exact.settleCounted(ctx, c, is.limits, more, less); late != nil {
			if again(late) || more.Cost == 0 {
				return late
			}
			change.less = limiter.Costs{}
		}
		now = e.now()
		change.then, change.at = c.at, now
	}
	if e.outcomes != nil {
		defer e.outcomes.lock(now)()
	}
	q, f := e.reopen(now, dc)
	_, ok := q.issuedWith(&dc.reply.Fields.Values)
	if e.memory == nil {
		f.Shown, _ = q.issuedWith(dc.reply.Fields.Current()) // nothing else knows
	}
	p := q.who.tier.policy
	if e.exact != nil {
		p = q.who.tier.fallback
	}
	p = dc.decision.charged(p, &f)
	tally := change.adjust(e.memory, now, p, &f)
	if p := dc.heldCharge(); p != nil && is.limits&p.limits != 0 {
		tally = p.resize(now, tally, is.cost-d.Cost)
	}
	fields := answerFields{standings: q.standings(&f, &tally, &change), own: dc.own}
	if ok {
		fields.tally = &tally
	}
	var h http.Header
	if w != nil {
		h = w.Header()
	}
	q.reissue(fields, h)
	if u := d.units(); u != nil {
		u.add(&change)
	}
	return late
}

// A changed charge counts more on some limits, from a time on, and less on others, of what was counted then.
type changed struct {
	more, less limiter.Costs
	at, then   time.Time
}

// add adds what a settlement has changed.
func (u *unitCosts) add(c *changed) {
	for i := range u.more {
		u.more[i] += c.of(i)
	}
}

// of returns by how much the charge of a limit rises.
func (c *changed) of(i int) int64 { return c.more[i] - c.less[i] }

// standings returns how the limits stand after the charge of a request was changed. The counter's follow from
// the decision and the change: to ask it would be one more call.
func (q *call) standings(f *limiter.Candidate, tally *limiter.Tally, change *changed) *limiter.Verdict {
	p, v := q.who.tier.policy, limiter.Verdict{Admitted: true}
	switch d := &q.dc.decision; {
	case q.exact != nil && d.extras.exactCharge != nil:
		for i := range p.Len() {
			s, l, more := d.statusOf(i), &v.Limits[i], change.of(i)
			if u := d.units(); u != nil {
				more += u.more[i]
			}
			l.Remaining = min(max(0, int64(s.remaining)-more), atOnce(p.Limit(i)))
			l.Shadow = p.Limit(i).Shadow
			if l.Remaining < atOnce(p.Limit(i)) {
				l.Reset = time.Duration(s.reset>>1) * time.Second
			}
		}
		return &v
	case q.exact != nil:
		p = q.who.tier.fallback
	}
	f.Shown, f.Costs = *tally, nil
	if q.outcomes != nil {
		q.outcomes.noteHeld(f)
	}
	v = q.memory.Peek(q.at, p, f, 0)
	if q.dc.own != nil {
		capWaits(&v, restOf(q.at, q.dc.own))
	}
	return &v
}

// adjust changes in memory what a request was charged, and returns the tally.
func (c *changed) adjust(memory *limiter.Memory, now time.Time, p *limiter.Policy, f *limiter.Candidate) limiter.Tally {
	least := slices.Max(c.less[:])
	if least > 0 {
		f.Costs = &c.less
		f.Shown = memory.Restore(now, c.then, p, f, least)
	}
	if most := slices.Max(c.more[:]); most > 0 || least == 0 {
		f.Costs = &c.more
		f.Shown = memory.Record(c.at, p, f, most)
	}
	return f.Shown
}

// reopen returns a request that was decided, to change its charge, and which tally was charged. The tally is as the
// memory knows it: what was shown or signed may hold what others have got back since.
func (e *engine) reopen(now time.Time, dc *decisionContext) (q *call, f limiter.Candidate) {
	var prefix []byte
	if dc.decision.FromWaitingRoom {
		prefix = []byte{kindWaitingRoom} // at its full capacity: each append copies it
	}
	id := &dc.decision.Identity
	q = &call{engine: e, at: now, dc: dc, who: subject{id: id, bytes: id.append(prefix), tier: dc.decision.tier, cookiePrefix: id.cookiePrefix()}}
	e.seat(&q.who, prefix)
	if dc.own != nil && e.memory != nil {
		return q, e.ownCandidate(dc.own)
	}
	return q, q.sharedCandidate()
}

// issuedWith returns what the token says of the fields of a decision. It is not ok
// if there is none, or if it is of another tally than was charged: a client that has bought
// a tally keeps the token of that.
func (q *call) issuedWith(f *reply.Values) (t limiter.Tally, ok bool) {
	text := f.Lines[reply.Token]
	if text == "" {
		_, text = q.who.cutCookie(f.Cookie)
	}
	said, err := q.who.holder.Verify(q.at, text)
	return said.Tally, err == nil && said.Own.IsZero() == (q.dc.own == nil)
}

// reissue puts these fields in place of the decision's, wherever they stand. A tally that has
// counted nothing has no token; then none is sent. Fields that were sent already are left as they
// are.
func (q *call) reissue(fields answerFields, h http.Header) {
	f := &q.dc.reply.Fields
	if f.Finalized() {
		return
	}
	then := f.Copy()
	if fields.tally != nil {
		tok := string(q.who.appendToken(nil, fields.own, fields.tally))
		var cookie []byte
		if len(tok) > 0 {
			start, _ := q.who.cutCookie(f.Cookie)
			cookie = q.transport.appendCookieEnd([]byte(start), []byte(tok), q.expires(fields)-q.at.Unix())
		}
		then.ReplaceToken(tok, string(cookie))
		q.note(&q.dc.decision, fields, tok)
	}
	if fields.standings != nil && !q.transport.quiet {
		if q.transport.fields.has(RateLimitFields) {
			then.Lines[reply.RateLimit] = string(appendRateLimit(nil, q.who.tier.names, fields.standings))
		}
		if q.transport.fields.has(XRateLimitInSeconds) {
			answerX(then, q.who.tier.policy, q.who.tier.units, fields.standings)
		}
	}
	f.Reissue(h, then)
}
