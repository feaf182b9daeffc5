// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// charge notes that the request was charged to a tally of the decision's Identity: the shared
// one, or an own one. With so little, and the decision, the charge can be changed.
func (dc *decisionContext) charge(own *token.Own) {
	if d := &dc.decision; d.Cost > 0 {
		dc.charged, dc.own = true, own
	}
}

// noteCharge is charge for a request that was admitted by c, and notes what of it depends
// on the outcome.
func (dc *decisionContext) noteCharge(e *engine, c *charged) {
	if c.verdict.Admitted {
		dc.charge(c.own)
	}
	if p := c.pending; p != nil {
		p.now, p.free, p.ctx = e.now, e.free, dc.Context
		p.tell = func(now time.Time) { e.tell(now, dc) }
		dc.decision.withAside().pending = p
	}
}

// tell has the token say what is counted by now.
func (e *engine) tell(now time.Time, dc *decisionContext) {
	who, f := e.chargedBy(dc)
	f.Networks = nil
	tally, _ := e.memory.Take(now, who.tier.policy, &f, 0)
	e.reissue(now, dc, &who, told{own: dc.own, tally: &tally}, nil)
}

// again reports whether what has failed with err may be tried again.
func again(err error) bool { return err != nil && !errors.Is(err, exact.ErrNoRefund) }

// settle changes the charge of a request to cost.
func (e *engine) settle(ctx context.Context, dc *decisionContext, w http.ResponseWriter, cost int64) error {
	more := min(cost, storeless.MaxQuota) - dc.decision.Cost
	if dc.decision.aside != nil && dc.decision.aside.counted != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.exact.Deadline)
		defer cancel()
		if err := e.settleCounted(ctx, dc.decision.aside.counted, more); err != nil {
			return err
		}
	}
	now := e.now()
	if e.outcomes != nil {
		defer e.outcomes.hold(now)()
	}
	who, f := e.chargedBy(dc)
	issued, ok := e.issuedWith(now, dc, &who)
	if e.memory == nil {
		f.Shown = issued // nothing else knows
	}
	p := who.tier.policy
	if e.exact != nil {
		p = who.tier.fallback
	}
	p = dc.decision.charged(p, &f)
	tally := e.adjust(now, dc, p, &f, more)
	if p := dc.pending(); p != nil {
		tally = p.resize(now, tally, more)
	}
	tell := told{standings: e.standings(now, dc, &who, &f, &tally, more), own: dc.own}
	if ok {
		tell.tally = &tally
	}
	var h http.Header
	if w != nil {
		h = w.Header()
	}
	e.reissue(now, dc, &who, tell, h)
	return nil
}

// standings returns how the limits stand after more was charged for a request. The counter's are those of
// the decision and what has changed: to ask it would be one more call.
func (e *engine) standings(now time.Time, dc *decisionContext, who *subject, f *storeless.Candidate, tally *storeless.Tally, more int64) *storeless.Verdict {
	p, v := who.tier.policy, storeless.Verdict{Admitted: true}
	switch {
	case e.exact != nil && dc.decision.aside.counted != nil:
		for i := range p.Len() {
			s, l := dc.decision.statusOf(i), &v.Limits[i]
			l.Remaining = min(max(0, int64(s.remaining)-more), atOnce(p.Limit(i)))
			l.Shadow = p.Limit(i).Shadow
			if l.Remaining < atOnce(p.Limit(i)) {
				l.Reset = time.Duration(s.reset>>1) * time.Second
			}
		}
		return &v
	case e.exact != nil:
		p = who.tier.fallback
	}
	f.Shown = *tally
	if e.outcomes != nil {
		e.outcomes.noteHeld(f)
	}
	v = e.memory.Peek(now, p, f, 0)
	if dc.own != nil {
		capWaits(&v, restOf(now, dc.own))
	}
	return &v
}

// adjust charges more for a request, or less, in memory, and returns the tally.
func (e *engine) adjust(now time.Time, dc *decisionContext, p *storeless.Policy, f *storeless.Candidate, more int64) storeless.Tally {
	if more < 0 {
		return e.memory.Restore(now, time.UnixMicro(dc.reply.Fields.Now), p, f, -more)
	}
	return e.memory.Record(now, p, f, more)
}

// settleCounted changes what the counter has charged.
func (e *engine) settleCounted(ctx context.Context, c *counted, more int64) error {
	switch {
	case c.receipt == exact.Receipt{} || more == 0:
		return nil
	case more > 0:
		return e.chargePast(ctx, c, more)
	}
	receipt := c.receipt
	receipt.Cost = -more
	if err := e.giveBack(ctx, receipt, &c.lost); err != nil {
		return fmt.Errorf("middleware: the exact counter gave nothing back: %w", err)
	}
	e.exact.refusals.Forget(c.refusal)
	return nil
}

// chargePast has the counter charge more, whether or not there is room. It is the same
// call however often it is repeated.
func (e *engine) chargePast(ctx context.Context, c *counted, more int64) error {
	if !c.call.Past {
		c.call.ID, c.call.Cost, c.call.Past = rand.Text(), more, true
	}
	_, err := e.exact.Counter.Take(ctx, c.call)
	if err != nil && !errors.Is(err, exact.ErrNotCounted) && ctx.Err() == nil {
		_, err = e.exact.Counter.Take(ctx, c.call)
	}
	if err != nil {
		return fmt.Errorf("middleware: the exact counter did not charge what was settled: %w", err)
	}
	return nil
}

// giveBack has the counter give a charge back. If the answer is lost it asks once more, as
// for a charge. Where an answer was lost before, here or by the caller's last attempt,
// nothing to give back means that it was given back then. What comes too late is counted.
func (e *engine) giveBack(ctx context.Context, receipt exact.Receipt, lost *bool) error {
	for first := true; ; first = false {
		err := e.exact.Counter.Refund(ctx, receipt)
		switch {
		case errors.Is(err, exact.ErrLateRefund):
			e.exact.lateRefunds.Add(1)
			return err
		case err == nil, *lost && errors.Is(err, exact.ErrNoRefund):
			return nil
		case errors.Is(err, exact.ErrNotCounted), errors.Is(err, exact.ErrNoRefund):
			return err
		}
		*lost = true
		if !first || ctx.Err() != nil {
			return err
		}
	}
}

// chargedBy returns who was charged for a request, and which tally. The tally is as the
// memory knows it: what was shown or signed may hold what others have got back since.
func (e *engine) chargedBy(dc *decisionContext) (who subject, f storeless.Candidate) {
	var room []byte
	if dc.decision.FromWaitingRoom {
		room = []byte{kindRoom} // and no room for more: each append copies it
	}
	id := &dc.decision.Identity
	who = subject{id: id, bytes: id.append(room), tier: dc.decision.tier, mark: id.mark()}
	who.holder = e.codec.Holder(who.bytes)
	if e.memory == nil {
		return who, f
	}
	if dc.own != nil {
		return who, e.ownCandidate(who.tier, dc.own, dc.decision.Cost, nil)
	}
	f.Key, f.Provider = e.memory.Key(who.bytes), id.provider()
	if id.wide() {
		f.Networks = []storeless.Network{
			{Key: e.memory.Key(id.appendNet(room, 56)), Policy: who.tier.net56},
			{Key: e.memory.Key(id.appendNet(room, 48)), Policy: who.tier.net48},
		}
	}
	f.Networks = who.tier.bound(f.Key, f.Networks)
	return who, f
}

// issuedWith returns what the token says that was issued with the decision. It is not ok
// if there is none, or if it is of another tally than was charged: a client that has bought
// a tally keeps the token of that.
func (e *engine) issuedWith(now time.Time, dc *decisionContext, who *subject) (t storeless.Tally, ok bool) {
	f := &dc.reply.Fields
	text := f.Lines[reply.Token]
	if text == "" {
		_, text = who.cutCookie(f.Cookie)
	}
	said, err := who.holder.Verify(now, text)
	return said.Tally, err == nil && said.Own.IsZero() == (dc.own == nil)
}

// reissue has the response tell this in place of what the decision has told, wherever that stands. A
// tally that has counted nothing has no token; then none is sent. What was sent already is left as it is.
func (e *engine) reissue(now time.Time, dc *decisionContext, who *subject, tell told, h http.Header) {
	f := &dc.reply.Fields
	if f.Settled() {
		return
	}
	then := f.Copy()
	if tell.tally != nil {
		tok := who.appendToken(nil, tell.own, tell.tally)
		var cookie []byte
		if len(tok) > 0 {
			start, _ := who.cutCookie(f.Cookie)
			cookie = e.appendCookieEnd([]byte(start), tok, e.expires(tell)-now.Unix())
		}
		then.ReplaceToken(string(tok), string(cookie))
	}
	if tell.standings != nil && e.quiet == QuietOff {
		if e.fields.has(RateLimitFields) {
			then.Lines[reply.RateLimit] = string(appendRateLimit(nil, who.tier.names, tell.standings))
		}
		if e.fields != RateLimitFields {
			e.answerMore(now, then, who, tell.standings)
		}
	}
	f.Reissue(h, then)
}
