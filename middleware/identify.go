// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// identify tells who is asking, and what the steps need of it. Nothing else of the request has been
// looked at. It is not ok if the client is unknown, or the identity function refuses: then the
// verdict is a refusal. The identity is noted in dc, and its bytes.
func (q *call) identify() (v verdict, ok bool) {
	id, err := &q.dc.decision.Identity, error(nil)
	if q.r != nil {
		*id, err = q.hooks.identity(q.r)
	} else {
		*id = q.id
	}
	q.readClock()
	switch denial, _ := errors.AsType[*Denial](err); {
	case denial != nil:
		*id = Identity{}
		return verdict{reason: IdentityDenied, status: denial.status(), denial: denial}, false
	case err != nil || id.kind == 0:
		*id = Identity{}
		return q.unidentified(err), false
	case id.proxyWarning != nil:
		q.checks.warnOfProxy(q.at, id.proxyWarning)
	}
	q.knowSubject(q.ctx, q.at, id, q.dc.address[:0], &q.who)
	return verdict{}, true
}

// unidentified returns the verdict for a request whose client is unknown.
func (q *call) unidentified(err error) verdict {
	if errors.Is(err, ErrIdentityUnavailable) {
		if q.ctx.Err() == nil { // else the client has hung up while it was looked for
			q.checks.warn(q.at, identityAway, "error", err)
		}
		return verdict{reason: IdentityUnavailable, status: http.StatusServiceUnavailable, retryAfter: jittered(time.Second), identityErr: err}
	}
	q.checks.warn(q.at, identityUnknown, "because", whyUnidentified(err))
	return verdict{reason: IdentityUnknown, status: http.StatusForbidden, identityErr: err}
}

// whyUnidentified says why the client is unknown, in words of ours: an error may quote the client's.
func whyUnidentified(err error) string {
	if own, ok := errors.AsType[nobodyError](err); ok {
		return string(own)
	}
	if err == nil {
		return "the identity function returned the zero Identity"
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("the identity function failed with a %T; Decision.IdentityErr is its error, see ErrIdentityUnavailable", err)
}

// about is a question about an identity that shows nothing.
func (e *engine) about(ctx context.Context, now time.Time, id Identity) *call {
	q := &call{engine: e, ctx: ctx, id: id, at: now}
	e.knowSubject(ctx, now, &q.id, nil, &q.who)
	return q
}

// knowSubject fills in what the steps need of an identity. Its bytes are written to b.
func (e *engine) knowSubject(ctx context.Context, now time.Time, id *Identity, b []byte, who *subject) {
	who.id, who.bytes, who.tier, who.cookiePrefix = id, id.append(b), e.tierOf(now, id.Tier), id.cookiePrefix()
	if e.customLimits != nil {
		e.ownTierOf(ctx, now, who)
	}
	e.seat(who, nil)
}

// seat fills in where a subject is counted. Its bytes begin with prefix.
func (e *engine) seat(who *subject, prefix []byte) {
	who.holder = e.codec.Holder(who.bytes)
	if e.memory == nil {
		return
	}
	who.key = e.memory.Key(who.bytes)
	if who.id.wide() {
		var stack [1 + 16]byte
		start := append(stack[:0], prefix...)
		who.networks[0] = limiter.Network{Key: e.memory.Key(who.id.appendNet(start, 56)), Policy: who.tier.net56}
		who.networks[1] = limiter.Network{Key: e.memory.Key(who.id.appendNet(start, 48)), Policy: who.tier.net48}
	}
}

// tierOf returns the tier with the given name, or the base.
func (e *engine) tierOf(now time.Time, name string) *tier {
	if name == "" {
		return &e.base
	}
	if t, ok := e.tiers[name]; ok {
		return t
	}
	e.checks.warn(now, tierUnknown, "tier", name[:min(len(name), 64)])
	return &e.base
}
