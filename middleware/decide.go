package middleware

import (
	"errors"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// An inquiry is a request on its way to a decision: who asks, and what he shows.
type inquiry struct {
	now    time.Time
	id     Identity
	who    []byte // the bytes of id
	tier   *tier
	holder token.Holder
	shown  shown
	nets   [storeless.MaxWide]storeless.Wide // none unless id is wide
	proof  proof
	wait   *waiting // nil: the request is not refused, or there is no lane
}

// ask tells who is asking. It is not ok where that decides already: nobody can
// be told, or the identity function refuses.
func (e *engine) ask(d *Decision, r *http.Request, now time.Time) (id Identity, denial *Denial, ok bool) {
	d.Policy, d.Cost = e.base.policy.Name(), 1
	id, err := e.identity(r)
	if err != nil {
		if denial = denied(err); denial != nil {
			d.Reason, d.Status = IdentityDenied, denial.status()
			return id, denial, false
		}
		id, d.IdentityErr = Identity{}, err
	}
	if id.IsZero() {
		d.Reason, d.Status = IdentityUnknown, http.StatusForbidden
		e.warn(&e.alarms.nobody, now, "cannot tell who is asking; refused", "because", nobodyBecause(err))
		return id, nil, false
	}
	if id.doubt != "" {
		e.warn(&e.alarms.doubt, now, id.doubt)
	} else if id.kind == kindAddress && e.alarms.watch.due(now) {
		e.watchOut(&id, r, now)
	}
	return id, nil, true
}

// warnSaturated is for whoever should make the memory larger.
func (e *engine) warnSaturated(now time.Time) {
	e.warn(&e.alarms.saturated, now, "memory saturated: new clients are limited by their tokens alone, asked for work, or sold nothing", "remedy", "raise Config.Families")
}

// nobodyBecause says why nobody can be told, in words that are ours.
func nobodyBecause(err error) string {
	var own nobodyError
	switch {
	case errors.As(err, &own):
		return string(own)
	case err != nil:
		return "the identity function failed; Decision.IdentityErr is its error"
	}
	return "the identity function returned nobody"
}

// inquire begins an inquiry by id, whose bytes are who.
func (e *engine) inquire(d *Decision, id Identity, who []byte, now time.Time) inquiry {
	q := inquiry{now: now, id: id, who: who, tier: e.tierOf(id.Tier, now), holder: e.codec.Holder(who)}
	if e.memory != nil && id.wide() {
		q.nets = e.networks(&id, q.tier)
	}
	d.Tier, d.policy = q.tier.name, q.tier.policy
	return q
}

// denied returns the Denial in err, or nil.
func denied(err error) *Denial {
	var d *Denial
	errors.As(err, &d)
	return d
}

// networks names the /56 and the /48 around an IPv6 identity.
func (e *engine) networks(id *Identity, t *tier) [storeless.MaxWide]storeless.Wide {
	var stack [16]byte
	return [...]storeless.Wide{
		{Key: e.memory.Key(id.appendNet(stack[:0], 56)), Policy: t.net56},
		{Key: e.memory.Key(id.appendNet(stack[:0], 48)), Policy: t.net48},
	}
}

// decide fills in x: what the request costs, what it shows, what the limits
// say, and the fields that tell the client.
func (e *engine) decide(x *exchange, r *http.Request, now time.Time) *Denial {
	d := &x.decision
	id, denial, ok := e.ask(d, r, now)
	if !ok {
		return denial
	}
	if e.cost != nil {
		d.Cost = e.cost(r)
	}
	if d.Cost < 0 {
		d.Reason, d.Status = NegativeCost, http.StatusInternalServerError
		e.warn(&e.alarms.negativeCost, now, "Config.Cost returned a negative cost; refused", "cost", d.Cost)
		return nil
	}
	q := e.inquire(d, id, id.append(x.who[:0]), now)
	e.read(&q, r)
	d.Tokens, d.TokenErr = q.shown.accepted, q.shown.err
	if e.exact != nil {
		e.count(q, x, r)
		return nil
	}
	if e.challenge != nil {
		e.prove(&q, d, r)
	}

	var c charged
	if asked := e.charge(&q, d.Cost, &c); !e.passByWait(&q, r, d.Cost, &c, asked) {
		d.Reason, d.Status = NoToken, http.StatusForbidden
		e.refuseWith(&q, x)
		e.offerWait(&q, x, r)
		e.fill(x, &q, nil, nil, nil)
		return nil
	}
	d.Admitted, d.Saturated, d.Own = c.verdict.Admitted, c.verdict.Saturated, c.own != nil
	d.Lane, d.policy = c.lane, q.tier.policy
	d.stand(&c.verdict)
	e.judge(&q, x, &c.verdict)
	e.offerWait(&q, x, r)
	if d.Saturated {
		e.warnSaturated(now)
	}
	switch {
	case c.lane:
		e.fillByWait(x, &q, &c)
	case c.own == nil && len(q.shown.own) > 0:
		// The client keeps the token of its own family, which it has paid for;
		// a cookie has room for one. The memory counts the shared one.
		e.fill(x, &q, &c.verdict, nil, nil)
	case d.Admitted || q.tier.policy.Exceeds(now, c.tally, c.shown):
		x.fields.paid = c.own != nil && q.proof.opened
		e.fill(x, &q, &c.verdict, c.own, &c.tally)
	default:
		// A refusal charges nothing: there is news only for a client that
		// showed less than we know.
		e.fill(x, &q, &c.verdict, nil, nil)
	}
	return nil
}

// charged is the family that was charged, or that refused.
type charged struct {
	own     *token.Own // nil: the shared family
	lane    bool       // rather that of the wait lane
	shown   storeless.Tally
	tally   storeless.Tally
	verdict storeless.Verdict
}

// charge charges the family that fits the request, and reports false if there is
// none because a proof is wanted first.
//
// Own families come before the shared one, which is for those who have none or
// have used it up: its quota is everybody's, and the answer to who has paid must
// be a token of what he has paid for. Among own families the one with most left
// is charged, so that a spent token, planted or not, locks nobody out.
func (e *engine) charge(q *inquiry, cost int64, c *charged) bool {
	if e.challenge == nil {
		e.take(q, e.shared(q), cost, c)
		return true
	}
	if e.challenge.mode == EveryRequest {
		return e.chargeProof(q, cost, c)
	}
	if families := e.families(q); len(families) > 0 {
		i, tally, v := storeless.Choose(e.memory, q.tier.policy, q.now, families, cost)
		if q.proof.opened {
			i = q.proof.index
		}
		o := &q.shown.own[i]
		*c = charged{own: &o.own, shown: o.tally, tally: tally, verdict: v}
		if v.Admitted || q.proof.opened || e.challenge.mode == Newcomers {
			return true
		}
	} else if e.challenge.mode == Newcomers {
		return false
	}
	shared := e.shared(q)
	shared.MustKeep = true
	if c.own == nil {
		e.take(q, shared, cost, c)
		return true
	}
	var other charged
	if e.take(q, shared, cost, &other); other.verdict.Admitted || other.verdict.Wait < c.verdict.Wait {
		*c = other
	}
	return true
}

// chargeProof charges the shared family for a request that comes with a proof of
// its own. Without one it says so, unless a proof would not help.
func (e *engine) chargeProof(q *inquiry, cost int64, c *charged) bool {
	f := e.shared(q)
	if q.proof.good {
		f.Proof = q.proof.spend
		e.take(q, f, cost, c)
		return true
	}
	c.verdict = storeless.Peek(e.memory, q.tier.policy, q.now, &f, cost)
	c.shown, c.tally = f.Shown, f.Shown
	return !c.verdict.Admitted
}

func (e *engine) take(q *inquiry, f storeless.Family, cost int64, c *charged) {
	c.shown = f.Shown
	c.tally, c.verdict = storeless.Take(e.memory, q.tier.policy, q.now, &f, cost)
}

// shared returns the family that everybody of the identity is in.
func (e *engine) shared(q *inquiry) storeless.Family {
	f := storeless.Family{Shown: q.shown.shared}
	if e.memory != nil {
		f.Key = e.memory.Key(q.who)
		if q.nets[0].Policy != nil {
			f.Wide = q.nets[:]
		}
	}
	return f
}

// families lists the own families that may be charged: all that are shown or,
// where a proof has opened one, that one alone.
func (e *engine) families(q *inquiry) []storeless.Family {
	own := q.shown.own
	if q.proof.opened {
		own = own[q.proof.index : q.proof.index+1]
	}
	list := make([]storeless.Family, len(own))
	for i := range own {
		list[i] = storeless.Family{Key: e.ownKey(own[i].own.ID), Shown: own[i].tally, MustKeep: true, Proof: q.proof.spend}
	}
	return list
}

// ownKey names an own family in memory, whoever shows it.
func (e *engine) ownKey(id [8]byte) storeless.Key {
	if e.memory == nil {
		return 0
	}
	b := [9]byte{0: kindOwn}
	copy(b[1:], id[:])
	return e.memory.Key(b[:])
}

// judge says what the verdict means for the request.
func (e *engine) judge(q *inquiry, x *exchange, v *storeless.Verdict) {
	d := &x.decision
	switch {
	case v.Admitted:
		d.Reason = WithinLimits
	case v.Impossible:
		d.Reason, d.Status = CostAboveQuota, http.StatusForbidden
	case v.Spent:
		d.Reason, d.Status, d.Proof = ProofReplayed, http.StatusForbidden, ProofReplayed
		e.refuseWith(q, x)
	case v.Saturated:
		d.Reason, d.Status = MemoryFull, http.StatusForbidden
		e.refuseWith(q, x)
	default:
		d.Reason, d.Status = OverLimit, http.StatusTooManyRequests
		d.RetryAfter = v.Wait
		if e.challenge != nil && e.challenge.mode != EveryRequest {
			e.refuseWith(q, x)
		}
		d.RetryAfter = jittered(d.RetryAfter)
	}
}

// refuseWith makes an offer along with a refusal. In shadow mode there is none.
func (e *engine) refuseWith(q *inquiry, x *exchange) {
	if e.challenge != nil && !e.shadow {
		e.offer(q, x)
	}
}
