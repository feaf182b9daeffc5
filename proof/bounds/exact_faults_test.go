// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// An illness is what becomes of a call, instead of what the counter would answer.
type illness func(ctx context.Context, answer func() (exact.Verdict, error)) (exact.Verdict, error)

// An ailing counter does what an illness has it do.
type ailing struct {
	queued

	ill sync.Mutex
	do  illness                 // nil: it is well
	cut context.CancelCauseFunc // ends what is out
	on  context.Context
}

func newAiling(server *queue) *ailing {
	a := &ailing{queued: queued{server: server}}
	a.on, a.cut = context.WithCancelCause(context.Background())
	return a
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
	load      bool          // nobody is decided by the fallback
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

// A promise is what a fault costs at most: by how much the p99 of payers grows, after what time the log says
// that there is an outage (0: it never does), and after what time from the cure all is well, which is told ten seconds later.
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
	const strike = 503 * time.Millisecond // not when somebody asks
	server := &queue{service: wellService}
	a := newAiling(server)
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
