package middleware

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// An engine is a compiled [Config], and immutable.
type engine struct {
	base   tier
	tiers  map[string]*tier
	codec  *token.Codec
	memory *storeless.Memory // nil if switched off

	challenge    *challenger       // nil: never
	lane         *lane             // nil: none
	exact        *escalation       // nil: token and memory decide
	carried      *storeless.Policy // what tokens carry: the limits, and more on an exact route
	life         time.Duration     // of what is signed
	mounted      *atomic.Bool      // somebody has asked for the endpoints
	net56, net48 int64

	identity   IdentityFunc
	cost       func(*http.Request) int64 // nil: 1
	skip       func(*http.Request) bool  // nil: none
	refused    http.Handler              // nil: built in
	page       http.Handler              // nil: built in
	onDecision func(*http.Request, Decision)
	log        *slog.Logger
	now        func() time.Time

	carriage         Carriage
	quiet            Quiet
	xRateLimit       XRateLimit
	shadow           bool
	cookieName       string
	cookieAttributes string
	proofCookie      string
	embedded         bool // in other sites' frames

	alarms *alarms // of the Middleware, whatever its configuration
}

// A tier is one set of limits, with all that follows from them.
type tier struct {
	name         string
	policy       *storeless.Policy
	net56, net48 *storeless.Policy // for whole IPv6 networks
	exact, shard *exact.Policy     // nil: not on an exact route
	fallback     *storeless.Policy // when the counter does not answer; else nil
	print        counterKey        // of the quotas
	field        string            // RateLimit-Policy
	names        []string          // of the limits
	lane         *tier             // for the wait lane; nil: none
}

func newTier(cfg *Config, name string, l limits) tier {
	p := l.tokens
	t := tier{name: name, policy: p, field: policyField(p)}
	for i := range p.Len() {
		t.names = append(t.names, p.Limit(i).Name)
	}
	if cfg.Exact != nil {
		x := cfg.Exact.withDefaults()
		t.exact, t.shard, t.fallback = l.exact, l.exact.Share(x.Shards), p.Share(x.Instances)
		t.print = fingerprint(p)
		p = t.fallback // networks are counted in memory alone
	}
	t.net56, t.net48 = p.Scale(cfg.Net56), p.Scale(cfg.Net48)
	return t
}

// compile checks cfg and compiles all of it but the memory.
func compile(cfg Config) (*engine, error) {
	cfg = withDefaults(cfg)
	c, err := check(&cfg)
	if err != nil {
		return nil, err
	}
	e := &engine{
		base:       newTier(&cfg, "", c.base),
		tiers:      make(map[string]*tier, len(c.tiers)),
		codec:      c.codec,
		carried:    c.carried,
		life:       c.life,
		challenge:  c.challenge,
		net56:      cfg.Net56,
		net48:      cfg.Net48,
		identity:   cfg.Identity,
		cost:       cfg.Cost,
		skip:       cfg.Skip,
		refused:    cfg.Refused,
		page:       cfg.Page,
		onDecision: cfg.OnDecision,
		log:        cfg.Logger,
		now:        cfg.Now,
		carriage:   cfg.Carriage,
		quiet:      cfg.Quiet,
		xRateLimit: cfg.XRateLimit,
		shadow:     cfg.Shadow,
		embedded:   cfg.EmbeddedCookie,
	}
	if cfg.Exact != nil {
		e.exact = &escalation{Exact: cfg.Exact.withDefaults(), mark: c.base.tokens.Len()}
	}
	for name, p := range c.tiers {
		t := newTier(&cfg, name, p)
		e.tiers[name] = &t
	}
	e.cookieName, e.cookieAttributes = cookieParts(&cfg)
	e.proofCookie = e.cookieName + ".proof" // no policy has a dot in its name
	if err := e.openLane(&cfg); err != nil {
		return nil, err
	}
	e.introduce()
	if e.log == nil {
		e.log = slog.Default()
	}
	if e.now == nil {
		e.now = time.Now
	}
	return e, nil
}

// introduce tells the tiers of each other. They count in the same tallies, so each
// has to know how much a bucket of any of them may be owed.
func (e *engine) introduce() {
	tiers, lanes := []*tier{&e.base}, []*tier(nil)
	for _, t := range e.tiers {
		tiers = append(tiers, t)
	}
	for _, t := range tiers {
		if t.lane != nil {
			lanes = append(lanes, t.lane)
		}
	}
	for _, group := range [][]*tier{tiers, lanes} {
		for _, role := range []func(*tier) **storeless.Policy{
			func(t *tier) **storeless.Policy { return &t.policy },
			func(t *tier) **storeless.Policy { return &t.net56 },
			func(t *tier) **storeless.Policy { return &t.net48 },
			func(t *tier) **storeless.Policy { return &t.fallback },
		} {
			var largest *storeless.Policy
			for _, t := range group {
				if p := *role(t); largest == nil {
					largest = p
				} else {
					largest = largest.Among(p)
				}
			}
			for _, t := range group {
				if p := role(t); *p != nil { // there is a fallback on exact routes alone
					*p = (*p).Among(largest)
				}
			}
		}
	}
}

// tierOf returns the tier with the given name, or the base.
func (e *engine) tierOf(name string, now time.Time) *tier {
	if name == "" {
		return &e.base
	}
	if t, ok := e.tiers[name]; ok {
		return t
	}
	e.warn(&e.alarms.tier, now, "identity has an unknown tier; the limits of Config.Limits apply", "tier", name[:min(len(name), 64)])
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

// The alarms of a Middleware outlive its configurations: else each Reconfigure would
// ring them anew, and leave an outage without its end.
type alarms struct {
	negativeCost, nobody, tier, doubt, proxy, crowd, saturated, issue, unmounted, failed, outage alarm

	down  atomic.Bool // the log says that the exact counter does not answer
	watch watch       // for proxies that are taken for clients
}

// An alarm rings at most once a minute, so that an attack cannot fill the disk.
type alarm struct{ last atomic.Int64 }

// due takes a clock that has stepped back by a minute for one that was wrong
// before, and less for requests that overtake each other.
func (a *alarm) due(now time.Time) bool {
	last, second := a.last.Load(), now.Unix()
	return (second >= last+60 || second <= last-60) && a.last.CompareAndSwap(last, second)
}
