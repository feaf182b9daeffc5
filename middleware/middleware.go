// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/load"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/storeless"
)

// A Middleware limits the handlers it wraps by one policy. Make it with [New]: the
// zero Middleware has no policy, and panics. It is safe for concurrent use.
type Middleware struct {
	engine atomic.Pointer[engine]

	mu         sync.Mutex // guards the rest, which only Reconfigure changes
	memory     *limiter.Memory
	group      *peers.Group    // of Config.Peers
	peers      *gossip.Records // nil: it counts alone
	maxClients int
	dearest    int64 // that a route costs by HandlerCost

	passes  time.Duration // the longest life of a tally that was for sale
	served  *liveRequests
	mounted atomic.Bool // Endpoints was called, or Handler has answered in their place
	checks  checks
	proofs  proofCounts
	tokens  tokenCounts
	live    outcomes    // what requests hold, whatever the configuration
	load    *load.Meter // nil until WhenBusy was configured
}

// New returns a middleware, or all that is wrong with cfg: an error that begins with
// the policy's name and holds a [storeless.ConfigError] for each problem, see [storeless.ConfigErrors].
// Make one for each policy, and wrap all its handlers by it: two are two instances, and admit the
// limit each. The log tells of the second.
func New(cfg Config) (*Middleware, error) {
	m := &Middleware{live: outcomes{held: map[limiter.Key]int64{}}}
	m.checks.policy = cfg.Policy
	if err := m.Reconfigure(cfg); err != nil {
		return nil, err
	}
	if inUse.second(&m.checks) {
		m.checks.warn(m.loaded().now(), policyMadeTwice)
	}
	return m, nil
}

// Reconfigure replaces the whole configuration while requests are served. Requests under way keep
// the old one. If cfg is faulty nothing changes.
//
// Counts stay, in memory and tokens, for every limit that keeps its name, algorithm and window,
// whatever its quota is now. A limit that changes one of them is a new one, and begins at zero; so
// does a counter that takes over, or is gone, with Exact. A bought tally lives as long as it was
// sold for. It goes on with its count and the new quotas, whatever PassTime is now, and also where
// the Challenge was off meanwhile. While it is off, tokens of bought tallies are as if absent.
// Where ByOutcome goes, or has other limits, what requests under way hold is charged.
//
// Policy cannot change, because tokens are made out to it. MaxClients and Peers cannot change
// either. Each limit has cells of its own for MaxClients clients: the memory grows and shrinks with
// the number of limits.
func (m *Middleware) Reconfigure(cfg Config) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.compile(cfg)
	if err != nil {
		return err
	}
	cfg = withDefaults(cfg)
	was := m.engine.Load()
	m.connect(e, &cfg)
	m.checks.logTo(cfg.Logger)
	m.engine.Store(e)
	if e.memory != nil {
		counted := []*limiter.Policy{e.base.policy}
		if pass := e.base.pass; pass != nil {
			counted = append(counted, pass.policy)
		}
		e.memory.Retain(e.now(), counted...)
	}
	now := e.now()
	e.logConfigured(now, &cfg, was)
	e.logBounds()
	e.warnOfIdle(now)
	e.adviseHour(now)
	e.warnOfFree(now, cfg.ByOutcome)
	e.warnOfSecrets(now, cfg.Secrets)
	e.warnOfDear(now, m.dearest)
	return nil
}

// connect gives an engine what outlives configurations. The lock is held.
func (m *Middleware) connect(e *engine, cfg *Config) {
	if !cfg.InsecureNoMemory {
		if m.memory == nil {
			m.maxClients = cfg.MaxClients
			m.memory = limiter.NewMemory(cfg.MaxClients, e.base.policy.Len())
			if cfg.Peers != nil {
				m.group, m.peers = cfg.Peers, cfg.Peers.Records()
				m.memory.Join(m.peers, cfg.Policy)
			}
		}
		e.memory, e.peers = m.memory, m.peers
		if e.exact == nil { // there tokens say more than the memory
			e.tokenCache = m.memory.TokenCache()
		}
	}
	was := m.engine.Load()
	if r := e.room; r != nil {
		r.memory = e.memory
		if was != nil && was.room != nil {
			r.uses = was.room.uses
		}
	}
	if was != nil && was.customLimits != nil && e.customLimits != nil {
		e.customLimits.adopt(was.customLimits)
	}
	if e.gate != nil {
		if m.served == nil {
			m.served = &liveRequests{seed: maphash.MakeSeed()}
		}
		e.gate.liveRequests = m.served
		m.served.table.SetHold(e.gate.MaxHold)
	}
	e.checks, e.tokens = &m.checks, &m.tokens
	m.live.countBy(e.now(), e.base.lateIDs)
	if cfg.ByOutcome != nil {
		e.outcomes = &m.live
	}
	if c := e.challenge; c != nil {
		m.passes = max(m.passes, c.passLife)
		c.longestPass = m.passes
		if m.load == nil && c.mode == WhenBusy {
			m.load = load.New()
		}
		c.memory, c.load, c.mounted, c.proofs, c.checks = e.memory, m.load, &m.mounted, &m.proofs, &m.checks
	}
	if e.challenge.sellsTallies() {
		e.life = max(e.life, m.passes)
	}
}

// Validate reports what Reconfigure would, and changes nothing. So a program that has several
// middlewares can change all of them or none. Of the zero Middleware it reports what New would.
func (m *Middleware) Validate(cfg Config) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.compile(cfg)
	return err
}

// compile compiles cfg, but for the memory, or reports all that is wrong with it in the place
// of what there is. The lock is held.
func (m *Middleware) compile(cfg Config) (*engine, error) {
	e, err := compile(cfg)
	err = told(err, m.fits(&cfg, e != nil))
	if err == nil {
		return e, nil
	}
	between := " "
	if strings.Contains(err.Error(), "\n") {
		between = "\n"
	}
	return nil, fmt.Errorf("policy %q:%s%w", cfg.Policy, between, err)
}

// fits reports what in cfg, sound by itself or not, cannot take the place of what
// there is.
func (m *Middleware) fits(cfg *Config, sound bool) error {
	var errs []error
	problem := limiter.Noting(&errs, "")
	if was := m.engine.Load(); sound && was != nil && was.base.policy.Name() != cfg.Policy {
		problem("Policy", "is %q and cannot change while serving: all tokens would be void", was.base.policy.Name())
	}
	if cfg.InsecureNoMemory || m.memory == nil {
		return told(errs...)
	}
	if cfg.Peers != m.group {
		problem("Peers", "cannot change while serving: what was counted has a name among them")
	}
	if withDefaults(*cfg).MaxClients != m.maxClients {
		problem("MaxClients", "is %d and cannot change while serving", m.maxClients)
	}
	return told(errs...)
}

// loaded returns what is compiled, or says what is amiss.
func (m *Middleware) loaded() *engine {
	if m != nil {
		if e := m.engine.Load(); e != nil {
			return e
		}
	}
	panic("middleware: a Middleware must be made by New, which has returned no error")
}

// requireHandler panics where there is none, as [http.Handle] does: a mistake of the program, found at start.
func requireHandler(next http.Handler) {
	if f, ok := next.(http.HandlerFunc); next == nil || ok && f == nil {
		panic("middleware: nil handler")
	}
}

// Stats returns what has happened since the middleware was made.
func (m *Middleware) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.loaded()
	s := Stats{Policy: e.name, Challenges: m.proofs.issued.Load(), Work: m.proofs.work.Load(), HighestWork: m.proofs.highest.highest(e.now()), Proofs: m.proofs.stats(), Tokens: m.tokens.stats(), KeyIDs: e.codec.KeyIDs(), TokenLife: e.life}
	if c := e.challenge; c != nil && c.mode == WhenBusy {
		s.Busy = c.load.Busy(e.now(), c.busyAt)
	}
	if x := e.exact; x != nil {
		now := e.now()
		_, _, refusing := x.guard.Refuses(now)
		s.Counter = &CounterStats{Down: !x.guard.Well(now), Refusing: refusing, Utilization: x.guard.Busy(), LateRefunds: x.lateRefunds.Load()}
	}
	if m.memory != nil {
		s.Saturations = m.memory.Saturations()
		s.Fill = m.memory.Fill(e.now())
		s.Inherited, s.InheritedQuotas = m.memory.Inherited()
	}
	return s
}

// BoundsOf returns what clients get at most under cfg, without serving anything. It needs neither
// Secrets nor Identity nor Exact.Counter, and knows nothing of LimitsFor. It returns the same
// errors as [New].
func BoundsOf(cfg Config) (Bounds, error) {
	cfg.LimitsFor = nil
	if len(cfg.Secrets) == 0 {
		cfg.Secrets = [][]byte{[]byte("a secret by which nothing is signed")}
	}
	if x := cfg.Exact; x != nil && x.Counter == nil {
		unasked := *x
		unasked.Counter = struct{ exact.Counter }{}
		cfg.Exact = &unasked
	}
	e, err := new(Middleware).compile(cfg)
	if err != nil {
		return Bounds{}, err
	}
	b, _ := e.bounds()
	return b, nil
}

// Bounds returns what clients get at most under the configuration in force, but for limits of [LimitsFor].
func (m *Middleware) Bounds() Bounds {
	b, _ := m.loaded().bounds()
	return b
}

// Handler returns a handler that limits next. One Middleware may wrap any number
// of handlers: they share the policy and its counts.
//
// It belongs inside of whatever must see every request, such as CORS, logging
// and http.CrossOriginProtection, and outside of http.TimeoutHandler, which
// would throw the token away. The request is charged before next runs, whatever
// becomes of it, unless [Settle], [Refund] or [ByOutcome] say otherwise, or a policy inside refuses
// it. Requests for the policy's own URLs, see [Middleware.Endpoints], are answered and not charged.
// It panics if next is nil.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	m.loaded()
	requireHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.engine.Load().serve(w, r, next, nil)
	})
}

// Endpoints returns the handler of the policy's own URLs, to be mounted at
// Config.Challenge.Path, and at no other place, without a method:
//
//	GET  <path>challenge  a fresh challenge, and whether the next request needs it;
//	                      ?cost=n if it costs n, not 1
//	POST <path>redeem     a proof, in the Tallystick-Proof field, for a token
//	GET  <path>ticket     a ticket for the waiting room, and how long it has to wait
//	GET  <path>tally.js   the script for browsers; see docs/forms.md
//	GET  <path>solver.js  and other files that go with it
//
// Redeeming answers the first token of a tally: its count is zero and every byte
// derives from the challenge, so that a lost answer can be asked for again and
// a replay gains nothing. In [EveryRequest] it sets a cookie that carries the proof
// along with the next request, for forms that cannot send fields. Proofs that pages of
// other origins send are refused. Without a Challenge, or without its Path, all is 404, and
// logged; so are a path that does not begin with Challenge.Path, and a
// challenge that names these URLs before Endpoints was called.
func (m *Middleware) Endpoints() http.Handler {
	e := m.loaded()
	m.mounted.Store(true)
	if e.challenge == nil || e.challenge.path == "" {
		m.checks.warn(e.now(), endpointsIdle)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.engine.Load().serveEndpoints(w, r)
	})
}

// ScriptURL returns the URL of the script for browsers, to be named by pages:
//
//	<link rel="stylesheet" href="{{.StyleURL}}">
//	<script type="module" src="{{.ScriptURL}}"></script>
//
// It changes with the content of the files, and the response may be cached for ever; tally.js below
// Challenge.Path is the same under a name that never changes. It is "" without Challenge.Path. The
// files are served by [Middleware.Endpoints]: plain JavaScript without WebAssembly, blob: URLs,
// inline code or styles, which needs no more than Content-Security-Policy: default-src 'self'. If
// worker-src does not allow it, the work is done on the page's own thread, in slices too short to
// be felt. docs/forms.md says what the script offers.
func (m *Middleware) ScriptURL() string {
	if c := m.loaded().challenge; c != nil {
		return c.script
	}
	return ""
}

// StyleURL returns the URL of the style sheet for the element. It changes with the
// content, like [Middleware.ScriptURL].
func (m *Middleware) StyleURL() string {
	if c := m.loaded().challenge; c != nil {
		return c.style
	}
	return ""
}

// HandlerCost returns a handler that limits next, like [Middleware.Handler], where each
// request has the given cost: the price beside the route that has it.
//
//	http.Handle("GET /items/{id}", limit.Handler(item))
//	http.Handle("POST /report", limit.HandlerCost(5, report))
//
// All routes of a Middleware share its quotas. [Config].Cost is not asked. A cost of 0 peeks:
// the request is counted nowhere, and is told how the limits stand. A cost above a quota of
// the client is answered 403. [Settle] changes the cost as it does any other.
//
// A page that checks before it sends, see docs/forms.md, names the same number: the
// endpoint does not know which route it asks for.
//
// It panics if next is nil, or if cost is negative or above [storeless.MaxQuota]: mistakes in the program. A
// cost that a tier, or every client, may never use is logged: quotas may come from a file, and change.
func (m *Middleware) HandlerCost(cost int64, next http.Handler) http.Handler {
	e := m.loaded()
	requireHandler(next)
	if cost < 0 || cost > storeless.MaxQuota {
		panic(fmt.Sprintf("middleware: a route costs from 0 to %d, not %d", int64(storeless.MaxQuota), cost))
	}
	m.mu.Lock()
	m.dearest = max(m.dearest, cost)
	m.mu.Unlock()
	e.warnOfDear(e.now(), cost)
	price := func(*http.Request) int64 { return cost }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.engine.Load().serve(w, r, next, price)
	})
}
