// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// An illness replaces the counter's answer to a call.
type illness func(ctx context.Context, answer func() (exact.Verdict, error)) (exact.Verdict, error)

// An ailing counter does what an illness has it do.
type ailing struct {
	queued

	ill sync.Mutex
	do  illness                 // nil: it is well
	cut context.CancelCauseFunc // ends what is out
	on  context.Context
}

// falls has it be ill in some way, or well again.
func (a *ailing) falls(do illness) {
	a.ill.Lock()
	defer a.ill.Unlock()
	a.do = do
}

// disconnects ends all calls that are out.
func (a *ailing) disconnects() {
	a.ill.Lock()
	defer a.ill.Unlock()
	a.cut(errReset)
	a.on, a.cut = context.WithCancelCause(context.Background())
}

// quickens has what is in the queue be done as fast as what comes.
func (a *ailing) quickens(service time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	now := time.Now()
	sooner := func(at time.Time) time.Time {
		return now.Add(max(0, at.Sub(now)) * service / a.server.service)
	}
	for i := range a.out {
		a.out[i] = sooner(a.out[i])
	}
	a.server.free, a.server.service = sooner(a.server.free), service
}

var errReset = errors.New("connection reset by peer")

// Take implements [exact.Counter].
func (a *ailing) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	a.ill.Lock()
	do, on := a.do, a.on
	a.ill.Unlock()
	if do != nil {
		return do(ctx, func() (exact.Verdict, error) { return a.queued.Take(ctx, call) })
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(on, func() { cancel(errReset) })()
	return a.queued.Take(ctx, call)
}

// refuses fails every call at once.
func refuses(err error) illness {
	return func(context.Context, func() (exact.Verdict, error)) (exact.Verdict, error) {
		return exact.Verdict{}, err
	}
}

// A mishap is a fault that befalls the counter of one instance, and passes.
type mishap struct {
	name, row string  // of promises
	ill       illness // nil: it is something else
	strike    func(a *ailing, lasts time.Duration)
	cure      func(a *ailing)
	lasts     time.Duration // 0: some seconds
	load      bool          // the fallback decides no request
}

// The rows of what a fault costs.
const (
	rowAtOnce  = "killed, answers cut in the middle, LOADING, READONLY, OOM"
	rowLate    = "frozen, calls or answers lost, answers late, calls slower than the deadline"
	rowFlood   = "one of these amid a flood"
	rowSilence = "120 ms of silence"
	rowFull    = "no room for keys, a full disk"
	rowNode    = "one node of a cluster hangs"
)

// A promise bounds the cost of a fault: by how much the p99 of payers grows, when the log reports an outage
// (0: never), and how long after the cure all is well. The log reports the end ten seconds later.
type promise struct{ grows, alarm, well time.Duration }

// The promises are for 50 requests of payers and 200 of strangers a second, with the default deadline. What an
// instance is late for want of processors comes on top: of nine real pauses of a Redis (CLIENT PAUSE 1000 ALL), beside a
// load of 40 on two cores, eight were over 0.8 s after their end, and one after 2.5 s.
var promises = map[string]promise{
	rowAtOnce:  {5 * time.Millisecond, 250 * time.Millisecond, time.Second},
	rowLate:    {50 * time.Millisecond, 250 * time.Millisecond, time.Second},
	rowFlood:   {50 * time.Millisecond, 1200 * time.Millisecond, time.Second},
	rowSilence: {50 * time.Millisecond, 0, 60 * time.Millisecond},
	rowFull:    {20 * time.Millisecond, 0, time.Second},
	rowNode:    {50 * time.Millisecond, 1200 * time.Millisecond, time.Second},
}

// A call takes a millisecond: a flood is then some thousands of requests.
const wellService = time.Millisecond

func mishaps() []mishap {
	disconnects := func(a *ailing, _ time.Duration) { a.disconnects() }
	stalls := func(a *ailing, lasts time.Duration) { a.server.stall(lasts) }
	says := func(words string) illness { return refuses(fmt.Errorf("%w: %s", exact.ErrNotCounted, words)) }
	return []mishap{
		{name: "killed", row: rowAtOnce, ill: says("connection refused"), strike: disconnects},
		{name: "frozen", row: rowLate, strike: stalls},
		{name: "cuts in the middle of answers", row: rowAtOnce, ill: func(_ context.Context, answer func() (exact.Verdict, error)) (exact.Verdict, error) {
			_, _ = answer()
			return exact.Verdict{}, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReset)
		}, strike: disconnects},
		{name: "answers are lost", row: rowLate, ill: func(ctx context.Context, answer func() (exact.Verdict, error)) (exact.Verdict, error) {
			_, _ = answer()
			return never(ctx, exact.Call{})
		}},
		{name: "calls are lost", row: rowLate, ill: func(ctx context.Context, _ func() (exact.Verdict, error)) (exact.Verdict, error) {
			return never(ctx, exact.Call{})
		}},
		{name: "120ms of silence", row: rowSilence, strike: stalls, lasts: 120 * time.Millisecond},
		{name: "answers are late", row: rowLate, ill: func(ctx context.Context, answer func() (exact.Verdict, error)) (exact.Verdict, error) {
			time.AfterFunc(aDeadline, func() { _, _ = answer() }) // it comes when the caller has gone
			return never(ctx, exact.Call{})
		}},
		{name: "a call takes two deadlines", row: rowLate, strike: func(a *ailing, _ time.Duration) { a.server.slows(2 * aDeadline) },
			cure: func(a *ailing) { a.quickens(wellService) }},
		{name: "LOADING", row: rowAtOnce, ill: says("LOADING Redis is loading the dataset in memory")},
		{name: "READONLY", row: rowAtOnce, ill: says("READONLY You can't write against a read only replica")},
		{name: "OOM", row: rowAtOnce, ill: says("OOM command not allowed when used memory > 'maxmemory'")},
		{name: "no room for keys", row: rowFull, ill: refuses(exact.ErrFull), load: true},
		{name: "too many calls out", row: rowFlood, ill: refuses(exact.ErrBusy)},
	}
}

const aDeadline = 50 * time.Millisecond // the default

// Every fault strikes in the middle of a load of payers and strangers, and passes.
func TestFaults(t *testing.T) {
	phases := map[bool]int{false: 5, true: 1} // with a flood: it takes a second
	if kit.Brief() {
		phases[false] = 1
	}
	if kit.Long() {
		phases = map[bool]int{false: 25, true: 8}
	}
	floods := map[string]bool{} // rows that had one
	rows := map[string]int{}
	for _, m := range mishaps() {
		rows[m.row]++
		for _, outage := range []middleware.Outage{middleware.FailOpen, middleware.FailClosed} {
			if !kit.Whole() && rows[m.row] > 1 && (rows[m.row]%2 == 0) == (outage == middleware.FailOpen) {
				continue // each mishap has one of the two, and each row has both
			}
			for _, flood := range []bool{false, true} {
				if flood && floods[m.row] && kit.Brief() {
					continue
				}
				floods[m.row] = floods[m.row] || flood
				for phase := range phases[flood] {
					// Probes lie up to a second apart: the cure comes at any moment between two.
					lasts := m.lasts
					if lasts == 0 {
						lasts = 2500*time.Millisecond + time.Duration(phase)*time.Second/time.Duration(phases[flood])
					}
					name := fmt.Sprintf("%s, %s, flood %t, %s", m.name, map[middleware.Outage]string{middleware.FailOpen: "open", middleware.FailClosed: "closed"}[outage], flood, lasts)
					t.Run(name, func(t *testing.T) {
						kit.Bubble(t, func(t *testing.T) { befalls(t, &m, outage, flood, lasts) })
					})
					if m.lasts > 0 {
						break
					}
				}
			}
		}
	}
}

func befalls(t *testing.T, m *mishap, outage middleware.Outage, flood bool, lasts time.Duration) {
	const strike = 503 * time.Millisecond // between two requests
	server := &queue{service: wellService}
	a := &ailing{queued: queued{server: server}}
	a.on, a.cut = context.WithCancelCause(context.Background())
	s := &scene{over: make(chan struct{}), server: server}
	s.add(t, a, middleware.Exact{Outage: outage, InFlight: 32})
	payers, strangers := s.toll(), s.toll()
	began := time.Now()
	s.stream(payers, 50, func(n int, r *http.Request) { r.Header.Set("Payer", fmt.Sprint(n%20)) })
	if flood {
		s.flood(strangers, 50, addresses)
	} else {
		s.stream(strangers, 200, addresses)
	}
	time.AfterFunc(strike, func() {
		if a.falls(m.ill); m.strike != nil {
			m.strike(a, lasts)
		}
	})
	time.AfterFunc(strike+lasts, func() {
		if a.falls(nil); m.cure != nil {
			m.cure(a)
		}
	})
	s.lasts(strike+lasts+2*time.Second, nil)

	cure := strike + lasts
	before, all := payers.p99(0, strike), payers.p99(0, cure+2*time.Second)
	recovered := payers.recovered(cure)
	t.Logf("payers %s, p99 %s, before %s; well %s after the cure; strangers %s; alarms %d", payers, all, before, recovered-cure, strangers, s.alarms())
	says := promises[m.row]
	if flood && says.alarm > 0 {
		says = promises[rowFlood]
	}
	require.LessOrEqual(t, all-before, says.grows, "the payers' added p99")
	require.LessOrEqual(t, recovered-cure, says.well, "recovery")
	require.LessOrEqual(t, strangers.firstPassed(cure)-cure, says.well, "strangers pass again")
	if says.alarm == 0 {
		require.Zero(t, s.alarms())
		require.Empty(t, s.told("answers again"))
	} else {
		require.Equal(t, 1, s.alarms())
		require.LessOrEqual(t, s.told("does not answer")[0].Sub(began)-strike, says.alarm, "the alarm")
		end := s.allClear(t, began.Add(cure))
		require.GreaterOrEqual(t, end, time.Duration(0), "ten seconds before the all-clear")
		require.LessOrEqual(t, end, says.well)
		require.Equal(t, 1, s.alarms())
	}
	for _, c := range []*toll{payers, strangers} {
		for _, r := range c.asks {
			if r.fallback {
				require.Equal(t, middleware.FailOpen, outage)
				require.False(t, m.load || flood && says.alarm == 0, "by the fallback, and it is load")
				require.GreaterOrEqual(t, r.at, strike)
				require.LessOrEqual(t, r.at, cure+says.well)
			}
		}
	}
}

// p99 returns what 99 of 100 requests of some time have taken at most.
func (c *toll) p99(from, to time.Duration) time.Duration {
	var took []time.Duration
	for _, r := range c.asks {
		if r.at >= from && r.at < to {
			took = append(took, r.took)
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// recovered returns when all pass, after a cure.
func (c *toll) recovered(cure time.Duration) time.Duration {
	last := cure
	for _, r := range c.asks {
		if !r.passed {
			last = max(last, r.at)
		}
	}
	return last
}

// firstPassed returns when one has passed after a cure; a day if none has.
func (c *toll) firstPassed(cure time.Duration) time.Duration {
	first := 24 * time.Hour
	for _, r := range c.asks {
		if r.passed && r.at >= cure {
			first = min(first, r.at)
		}
	}
	return first
}

// A queue is a server that does one call after the other. What a caller has given up is worked off all the same,
// unless the server is told the deadlines: then it costs less. It is for bubbles: time is virtual.
type queue struct {
	service, stale time.Duration // stale: of a call that is too late; 0: as any other

	mu   sync.Mutex
	free time.Time // when all that is in the queue is done
}

// slows changes what a call takes.
func (q *queue) slows(service time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.service = service
}

// stall has the server do nothing for a while.
func (q *queue) stall(lasts time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = time.Now().Add(lasts)
}

// arrive puts a call into the queue, and returns when it is done, and whether it was too late to be counted.
func (q *queue) arrive(deadline time.Time) (done time.Time, late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.free.Before(now) {
		q.free = now
	}
	if late = q.stale > 0 && q.free.After(deadline); late {
		q.free = q.free.Add(q.stale)
	} else {
		q.free = q.free.Add(q.service)
	}
	return q.free, late
}

// A queued counter is the engine of one instance: it has 512 places for calls that the
// server has not answered. What is counted does not matter here: everybody is admitted.
type queued struct {
	exact.Counter
	server *queue

	mu  sync.Mutex
	out []time.Time // when each is done
}

// Take implements [exact.Counter].
func (c *queued) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	deadline, _ := ctx.Deadline()
	c.mu.Lock()
	for len(c.out) > 0 && !c.out[0].After(time.Now()) {
		c.out = c.out[1:]
	}
	if len(c.out) >= 512 {
		c.mu.Unlock()
		return exact.Verdict{}, exact.ErrBusy
	}
	done, late := c.server.arrive(deadline)
	c.out = append(c.out, done)
	c.mu.Unlock()
	if done.After(deadline) {
		return never(ctx, exact.Call{})
	}
	time.Sleep(time.Until(done))
	if late {
		return exact.Verdict{}, exact.ErrNotCounted
	}
	var v exact.Verdict
	v.Admitted = true
	v.Receipt = exact.Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: time.Now(), Serial: "1"}
	return v, nil
}

// A scene has the instances of a route that share a server, and their clients, in virtual time.
type scene struct {
	sites  []http.Handler
	limits []*middleware.Middleware
	server *queue
	logs   []*handlers.Logged
	over   chan struct{}
	actors sync.WaitGroup
}

func newScene(t *testing.T, instances int, server *queue, x middleware.Exact) *scene {
	s := &scene{server: server, over: make(chan struct{})}
	for range instances {
		s.add(t, &queued{server: server}, x)
	}
	return s
}

// add adds an instance with a counter of its own.
func (s *scene) add(t *testing.T, counter exact.Counter, x middleware.Exact) {
	x.Counter = counter
	cfg := middleware.Config{
		Policy:     "api",
		Limits:     []middleware.Limit{{Quota: 1_000_000, Window: time.Hour}},
		Tiers:      map[string][]middleware.Limit{"paid": {{Quota: 1_000_000, Window: time.Hour}}},
		Secrets:    [][]byte{handlers.Secret("a")},
		MaxClients: 1024,
		Identity:   payerOr,
		Exact:      &x,
	}
	s.logs = append(s.logs, handlers.LogTo(&cfg))
	m := handlers.NewLimiter(t, cfg)
	s.limits = append(s.limits, m)
	s.sites = append(s.sites, m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}

// payerOr is an identity function: a principal in a tier, or an address.
func payerOr(r *http.Request) (middleware.Identity, error) {
	if who := r.Header.Get("Payer"); who != "" {
		id := middleware.Principal(who)
		id.Tier = r.Header.Get("Tier")
		return id, nil
	}
	return middleware.PeerAddress(r)
}

// flood starts clients at each instance. Each asks again as soon as it has an answer, or 10
// ms after a refusal.
func (s *scene) flood(toll *toll, clients int, set func(int, *http.Request)) {
	for n := range clients * len(s.sites) {
		s.actors.Go(func() {
			for s.lastsStill() {
				if !toll.ask(s.sites[n%len(s.sites)], n, set) {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
}

// stream sends requests at a rate, without regard to earlier answers.
func (s *scene) stream(toll *toll, rate int, set func(int, *http.Request)) {
	s.actors.Go(func() {
		for n := 0; s.lastsStill(); n++ {
			s.actors.Go(func() { toll.ask(s.sites[n%len(s.sites)], n, set) })
			time.Sleep(time.Second / time.Duration(rate))
		}
	})
}

func (s *scene) lastsStill() bool {
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

// lasts lets time pass, has something happen in it, and ends the scene.
func (s *scene) lasts(long time.Duration, happens func(at time.Duration)) {
	const step = 10 * time.Millisecond
	for at := time.Duration(0); at < long; at += step {
		if happens != nil {
			happens(at)
		}
		time.Sleep(step)
	}
	close(s.over)
	s.actors.Wait()
}

// alarms returns how many outages the logs tell of.
func (s *scene) alarms() int { return len(s.told("does not answer")) }

// allClear returns after what time from a cure the first instance has said that its counter is well, less the
// ten seconds for which it must have been. The scene is over: a payer asks now and then.
func (s *scene) allClear(t *testing.T, cure time.Time) time.Duration {
	t.Helper()
	for n := 0; n < 200 && len(s.told("answers again")) == 0; n++ {
		s.toll().ask(s.sites[0], n, paying("afterwards"))
		time.Sleep(50 * time.Millisecond)
	}
	require.Len(t, s.told("answers again"), 1, "one all-clear")
	return s.told("answers again")[0].Sub(cure) - 10*time.Second
}

// told returns when the logs said something, for each line that does.
func (s *scene) told(what string) (at []time.Time) {
	for _, log := range s.logs {
		at = append(at, log.Told(what)...)
	}
	return at
}

func (s *scene) toll() *toll { return &toll{began: time.Now()} }

// A toll counts what became of requests.
type toll struct {
	began time.Time

	mu                        sync.Mutex
	passed, fallback, refused int
	longest                   time.Duration
	lastRefused               time.Duration // since it began
	asks                      []ask
}

// An ask is one request.
type ask struct {
	at, took time.Duration // since the toll began, when it came back; how long it took
	passed   bool          // by the counter's word
	fallback bool
}

// ask makes a request, and reports whether it passed by the counter's word.
func (c *toll) ask(h http.Handler, n int, set func(int, *http.Request)) (passed bool) {
	r := handlers.NewRequest()
	set(n, r)
	w := httptest.NewRecorder()
	began := time.Now()
	h.ServeHTTP(w, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, time.Since(began))
	a := ask{at: time.Since(c.began), took: time.Since(began)}
	defer func() { c.asks = append(c.asks, a) }()
	switch degraded := w.Header().Get("Tallystick-Degraded") != ""; {
	case w.Code != http.StatusOK:
		c.refused++
		c.lastRefused = time.Since(c.began)
	case degraded:
		c.fallback++
		a.fallback = true
	default:
		c.passed++
		a.passed = true
		return true
	}
	return false
}

func (c *toll) String() string {
	return fmt.Sprintf("%d passed, %d by the fallback, %d refused", c.passed, c.fallback, c.refused)
}

// addresses returns addresses of strangers, each with a few of many.
func addresses(n int, r *http.Request) {
	r.RemoteAddr = fmt.Sprintf("198.18.%d.%d:1", n/250%250, n%250)
}

// paying is the request of a payer.
func paying(name string) func(int, *http.Request) {
	return func(_ int, r *http.Request) { r.Header.Set("Payer", name) }
}

// briefly returns this time, or half of it where time is short.
func briefly(long time.Duration) time.Duration {
	if !kit.Whole() {
		long /= 2
	}
	return long
}

// A client that asks all instances whenever they may admit it, while the counter fails until a minute before the month ends, and
// that spends the month then, gets what the row says, or a little less. The windows that stand in are aligned to 1970: the first of the months is one that begins just before such
// a window ends.
func TestOutageOfACalendar(t *testing.T) {
	for unit, step := range map[string]time.Duration{"day": 10 * time.Minute, "week": time.Hour, "month": 2 * time.Hour} {
		const quota, instances = 60, 3
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Instances, cfg.Limits = instances, []middleware.Limit{{Name: "calendar", Quota: quota, Calendar: unit}}
		cfg.Exact = &middleware.Exact{Outage: middleware.FailOpen}
		b := kit.Must(middleware.BoundsOf(cfg))(t)
		window := b.Rows[0].Limit.Window
		f := newFleet(t, cfg)
		begins, ends := worst(f.now.Now(), unit, window)
		f.now.Advance(begins.Sub(f.now.Now()))
		f.down = true
		left := window - time.Duration(begins.UnixNano()%int64(window)) - time.Second
		f.now.Advance(left) // to the last second of the window that stands in
		for ; f.now.Now().Before(ends.Add(-time.Minute)); f.now.Advance(min(step, ends.Add(-time.Minute).Sub(f.now.Now()))) {
			f.drain()
		}
		require.LessOrEqual(t, len(f.admitted), int(b.Rows[1].Admitted)-quota, "a %s", unit)
		for f.down = false; f.now.Now().Before(ends); f.now.Advance(5 * time.Second) {
			f.drain()
		}
		bound := b.Rows[1].Admitted
		require.LessOrEqual(t, len(f.admitted), int(bound), "a %s", unit)
		require.GreaterOrEqual(t, len(f.admitted), 3*quota-instances, "a %s", unit) // no window of UTC is the longest
	}
}

// worst returns a window of the calendar of the greatest length that UTC has, which begins within a day before such a window ends.
func worst(from time.Time, unit string, window time.Duration) (begins, ends time.Time) {
	from = from.UTC().Truncate(24 * time.Hour)
	for day := 0; ; day++ {
		begins = from.AddDate(0, 0, day)
		ends = map[string]time.Time{"day": begins.AddDate(0, 0, 1), "week": begins.AddDate(0, 0, 7), "month": begins.AddDate(0, 1, 0)}[unit]
		first := unit == "day" || unit == "week" && begins.Weekday() == time.Monday || unit == "month" && begins.Day() == 1 && ends.Sub(begins) == 31*24*time.Hour
		rest := window - time.Duration(begins.UnixNano()%int64(window))
		if first && rest > time.Minute && rest <= min(time.Hour*24, ends.Sub(begins)-window) {
			return begins, ends
		}
	}
}
