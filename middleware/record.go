// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// A record is what a request keeps of its decision. Every request allocates one, so it is
// small: a [Decision] is made of it for those who ask. Fields that both have mean the same.
type record struct {
	Identity   Identity
	Cost       int64
	RetryAfter time.Duration
	Reason     Reason

	engine *engine // that has decided
	tier   *tier   // nil where the Identity is zero
	aside  *aside  // nil for most
	first  [fewLimits]packedStatus

	status   int16
	tokens   uint8
	tokenErr tokenFault

	Admitted, Allowed, Own, FromWaitingRoom, Saturated, Degraded bool
	decided                                                      bool // the limits were asked
}

// withAside returns the aside of a record that needs one.
func (d *record) withAside() *aside {
	if d.aside == nil {
		d.aside = new(aside)
	}
	return d.aside
}

// exceptions returns those that there are.
func (d *record) exceptions() (x exceptions) {
	if d.aside != nil {
		x = d.aside.exceptions
	}
	return x
}

// statusOf returns how the i-th limit stands.
func (d *record) statusOf(i int) packedStatus {
	switch {
	case i < fewLimits:
		return d.first[i]
	case d.aside == nil:
		return packedStatus{}
	}
	return d.aside.others[i-fewLimits]
}

// noteLimits notes how the limits stand.
func (d *record) noteLimits(who *subject, v *storeless.Verdict) {
	d.decided, d.tier = true, who.tier
	for i := range who.tier.names {
		l := &v.Limits[i]
		s := packedStatus{int32(l.Remaining), uint32(l.Reset/time.Second) << 1}
		if l.Blocked {
			s.reset |= 1
		}
		if i < fewLimits {
			d.first[i] = s
		} else {
			d.withAside().others[i-fewLimits] = s
		}
	}
}

// noteCharge notes what was charged, and how its limits stand.
func (d *record) noteCharge(who *subject, c *charged) {
	d.Saturated, d.Own = c.verdict.Saturated, c.own != nil
	d.noteInherited(c.verdict.Inherited)
	d.noteLimits(who, &c.verdict)
}

// noteInherited notes what a newcomer to a full memory has begun with.
func (d *record) noteInherited(cost int64) {
	if cost > 0 {
		d.withAside().Inherited = cost
	}
}

// noteProof notes why a proof was not accepted.
func (d *record) noteProof(reason Reason) {
	if reason != "" {
		d.withAside().Proof = reason
	}
}

// noteCall notes a call to the counter that the request has waited for.
func (d *record) noteCall(outcome guardedcall.Outcome, took time.Duration) {
	x := d.withAside()
	x.call = callOf(outcome)
	x.took += took.Truncate(time.Microsecond)
}

// conclude notes what becomes of the request.
func (d *record) conclude(v *verdict) {
	d.Admitted = v.status == 0
	d.Reason, d.status, d.RetryAfter = v.reason, int16(v.status), v.retryAfter
	if v.identityErr != nil {
		d.withAside().IdentityErr = v.identityErr
	}
}

// concludeCharge notes what was charged, how its limits stand, and what that means.
func (d *record) concludeCharge(who *subject, c *charged) {
	v := verdictOf(&c.verdict)
	v.jitter()
	d.conclude(&v)
	d.noteCharge(who, c)
}

// decision returns the decision about r, which is nil outside of HTTP.
func (d *record) decision(r *http.Request) Decision {
	made := Decision{
		Policy: d.engine.name, Cost: d.Cost, Identity: d.Identity,
		Admitted: d.Admitted, Allowed: d.Allowed, Own: d.Own, FromWaitingRoom: d.FromWaitingRoom,
		Saturated: d.Saturated, Degraded: d.Degraded,
		Reason: d.Reason, Status: int(d.status), RetryAfter: d.RetryAfter,
		Tokens: int(d.tokens), TokenErr: d.tokenErr.err(),
		tier: d.tier, pseudonyms: d.engine.pseudonyms, request: r, decided: d.decided,
	}
	if d.tier != nil {
		made.Tier = d.tier.name
	}
	for i := range made.statuses {
		made.statuses[i] = d.statusOf(i)
	}
	if x := d.aside; x != nil {
		made.IdentityErr, made.Proof, made.Offered, made.RoomWait = x.IdentityErr, x.Proof, x.Offered, x.RoomWait
		made.Inherited, made.Call, made.took = x.Inherited, x.call, x.took
	}
	return made
}
