package middleware

import (
	"errors"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// identify tells who is asking. Nothing else of the request has been looked at. Where
// nobody can be told, or the identity function refuses, the verdict is a refusal.
func (e *engine) identify(now time.Time, r *http.Request) (Identity, verdict) {
	id, err := e.identity(r)
	if denial := denialIn(err); denial != nil {
		return Identity{}, verdict{reason: IdentityDenied, status: denial.status(), denial: denial}
	}
	if err != nil || id.IsZero() {
		e.report.warn(now, &e.report.alarms.nobody, "cannot tell who is asking; refused", "because", whyNobody(err))
		return Identity{}, verdict{reason: IdentityUnknown, status: http.StatusForbidden, identityErr: err}
	}
	if id.doubt != "" {
		e.report.warn(now, &e.report.alarms.doubt, id.doubt)
	}
	return id, verdict{}
}

// denialIn returns the Denial in err, or nil.
func denialIn(err error) *Denial {
	if err == nil {
		return nil
	}
	var d *Denial
	errors.As(err, &d)
	return d
}

// whyNobody says why nobody can be told, in words that are ours.
func whyNobody(err error) string {
	var own nobodyError
	switch {
	case errors.As(err, &own):
		return string(own)
	case err != nil:
		return "the identity function failed; Decision.IdentityErr is its error"
	}
	return "the identity function returned nobody"
}

// price returns what a request costs. A negative cost is the program's error: the
// verdict refuses.
func (e *engine) price(now time.Time, r *http.Request) (int64, verdict) {
	if e.cost == nil {
		return 1, verdict{}
	}
	cost := e.cost(r)
	if cost < 0 {
		e.report.warn(now, &e.report.alarms.negativeCost, "Config.Cost returned a negative cost; refused", "cost", cost)
		return cost, verdict{reason: NegativeCost, status: http.StatusInternalServerError}
	}
	return cost, verdict{}
}

// newSubject returns what the steps need of an identity. Its bytes are written to b.
func (e *engine) newSubject(now time.Time, id Identity, b []byte) subject {
	who := subject{id: id, bytes: id.append(b), tier: e.tierOf(now, id.Tier)}
	who.holder = e.codec.Holder(who.bytes)
	if e.memory != nil && id.wide() {
		var stack [16]byte
		who.networks = [...]storeless.Wide{
			{Key: e.memory.Key(id.appendNet(stack[:0], 56)), Policy: who.tier.net56},
			{Key: e.memory.Key(id.appendNet(stack[:0], 48)), Policy: who.tier.net48},
		}
	}
	return who
}

// tierOf returns the tier with the given name, or the base.
func (e *engine) tierOf(now time.Time, name string) *tier {
	if name == "" {
		return &e.base
	}
	if t, ok := e.tiers[name]; ok {
		return t
	}
	e.report.warn(now, &e.report.alarms.tier, "identity has an unknown tier; the limits of Config.Limits apply", "tier", name[:min(len(name), 64)])
	return &e.base
}
