package middleware

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// An engine is a compiled [Config]: immutable but for its alarms.
type engine struct {
	base   tier
	tiers  map[string]*tier
	codec  *token.Codec
	memory *storeless.Memory // nil if switched off

	identity   IdentityFunc
	cost       func(*http.Request) int64 // nil: 1
	skip       func(*http.Request) bool  // nil: none
	refused    http.Handler              // nil: built in
	onDecision func(*http.Request, Decision)
	log        *slog.Logger
	now        func() time.Time

	carriage         Carriage
	quiet            Quiet
	xRateLimit       XRateLimit
	shadow           bool
	cookieName       string
	cookieAttributes string

	alarms struct{ negativeCost, nobody, tier, doubt, saturated alarm }
}

// A tier is one set of limits, with all that follows from them.
type tier struct {
	name         string
	policy       *storeless.Policy
	net56, net48 *storeless.Policy // for whole IPv6 networks
	field        string            // RateLimit-Policy
	names        []string          // of the limits
}

func newTier(cfg *Config, name string, p *storeless.Policy) tier {
	t := tier{name: name, policy: p, net56: p.Scale(cfg.Net56), net48: p.Scale(cfg.Net48), field: policyField(p)}
	for i := range p.Len() {
		t.names = append(t.names, p.Limit(i).Name)
	}
	return t
}

// compile checks cfg and compiles all of it but the memory.
func compile(cfg Config) (*engine, error) {
	cfg = withDefaults(cfg)
	base, tiers, codec, err := check(&cfg)
	if err != nil {
		return nil, err
	}
	e := &engine{
		base:       newTier(&cfg, "", base),
		tiers:      make(map[string]*tier, len(tiers)),
		codec:      codec,
		identity:   cfg.Identity,
		cost:       cfg.Cost,
		skip:       cfg.Skip,
		refused:    cfg.Refused,
		onDecision: cfg.OnDecision,
		log:        cfg.Logger,
		now:        cfg.Now,
		carriage:   cfg.Carriage,
		quiet:      cfg.Quiet,
		xRateLimit: cfg.XRateLimit,
		shadow:     cfg.Shadow,
	}
	for name, p := range tiers {
		t := newTier(&cfg, name, p)
		e.tiers[name] = &t
	}
	e.cookieName, e.cookieAttributes = cookieParts(&cfg)
	if e.log == nil {
		e.log = slog.Default()
	}
	if e.now == nil {
		e.now = time.Now
	}
	return e, nil
}

// decide fills in x: who is asking, what the request costs, what its tokens
// show, what the limits say, and the fields that tell the client. The error is
// that of the identity function, if it refused.
func (e *engine) decide(x *exchange, r *http.Request, now time.Time) (denial *Denial) {
	d := &x.decision
	d.Policy, d.Cost = e.base.policy.Name(), 1
	id, err := e.identity(r)
	switch {
	case errors.As(err, &denial) && denial != nil:
		d.Reason, d.Status = IdentityDenied, denial.status()
		return denial
	case err != nil || id.IsZero():
		d.Reason, d.Status = IdentityUnknown, http.StatusForbidden
		e.warn(&e.alarms.nobody, now, "cannot tell who is asking; refused", "remedy", "set Config.Identity")
		return nil
	}
	if e.cost != nil {
		d.Cost = e.cost(r)
	}
	if d.Cost < 0 {
		d.Reason, d.Status = NegativeCost, http.StatusInternalServerError
		e.warn(&e.alarms.negativeCost, now, "Config.Cost returned a negative cost; refused", "cost", d.Cost)
		return nil
	}
	if id.doubt != "" {
		e.warn(&e.alarms.doubt, now, id.doubt)
	}
	t := e.tierOf(id.Tier, now)
	d.Tier, d.policy = t.name, t.policy

	var stack [64]byte
	who := id.append(stack[:0])
	holder := e.codec.Holder(who)
	s := e.read(r, now, &holder)
	d.Tokens, d.TokenErr = s.accepted, s.err

	var nets [storeless.MaxWide]storeless.Wide
	family := [1]storeless.Family{{Shown: s.tally}}
	if e.memory != nil {
		family[0].Key = e.memory.Key(who)
		if id.wide() {
			e.networks(&nets, &id, t)
			family[0].Wide = nets[:]
		}
	}
	_, tally, v := storeless.Choose(e.memory, t.policy, now, family[:], d.Cost)
	d.verdict, d.Admitted, d.Saturated = v, v.Admitted, v.Saturated
	switch {
	case v.Admitted:
		d.Reason = WithinLimits
	case v.Impossible:
		d.Reason, d.Status = CostAboveQuota, http.StatusForbidden
	default:
		d.Reason, d.Status = OverLimit, http.StatusTooManyRequests
		d.RetryAfter = jittered(v.Wait)
	}
	if v.Saturated {
		e.warn(&e.alarms.saturated, now, "memory saturated: new clients are limited by their tokens alone", "remedy", "raise Config.Families")
	}
	e.fill(x, t, now, &holder, &s, &tally)
	return nil
}

// networks names the /56 and the /48 around an IPv6 identity.
func (e *engine) networks(nets *[storeless.MaxWide]storeless.Wide, id *Identity, t *tier) {
	var stack [16]byte
	nets[0] = storeless.Wide{Key: e.memory.Key(id.appendNet(stack[:0], 56)), Policy: t.net56}
	nets[1] = storeless.Wide{Key: e.memory.Key(id.appendNet(stack[:0], 48)), Policy: t.net48}
}

// tierOf returns the tier with the given name, or the base.
func (e *engine) tierOf(name string, now time.Time) *tier {
	if name == "" {
		return &e.base
	}
	if t, ok := e.tiers[name]; ok {
		return t
	}
	e.warn(&e.alarms.tier, now, "identity has an unknown tier; the limits of Config.Limits apply", "tier", name)
	return &e.base
}

// jittered adds up to a tenth, and up to 30 seconds, so that clients refused
// together do not return together. Upwards only: an early client is refused
// again.
func jittered(wait time.Duration) time.Duration {
	seconds := max(1, int64(wait/time.Second))
	return time.Duration(seconds+rand.Int64N(min(seconds/10, 30)+1)) * time.Second
}

// warn logs one line, unless the alarm has rung within the last minute.
func (e *engine) warn(a *alarm, now time.Time, message string, args ...any) {
	if a.due(now) {
		e.log.Warn("tallystick: "+message, append([]any{"policy", e.base.policy.Name()}, args...)...)
	}
}

// An alarm rings at most once a minute, so that an attack cannot fill the disk.
type alarm struct{ last atomic.Int64 }

// due takes a clock that has stepped back by a minute for one that was wrong
// before, and less for requests that overtake each other.
func (a *alarm) due(now time.Time) bool {
	last, second := a.last.Load(), now.Unix()
	return (second >= last+60 || second <= last-60) && a.last.CompareAndSwap(last, second)
}
