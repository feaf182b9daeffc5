// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/tallystick/tallystick/middleware"
)

// gauges are the instruments that are read from [middleware.Stats].
type gauges struct {
	meter metric.Meter

	utilization     metric.Float64ObservableGauge
	inherited       metric.Int64ObservableCounter
	inheritedQuotas metric.Float64ObservableCounter
	saturations     metric.Int64ObservableCounter

	challenges metric.Int64ObservableCounter
	work       metric.Int64ObservableCounter
	proofs     metric.Int64ObservableCounter

	tokens  metric.Int64ObservableCounter
	secrets metric.Int64ObservableGauge

	busy metric.Int64ObservableGauge

	down     metric.Int64ObservableGauge
	refusing metric.Int64ObservableGauge
	taken    metric.Float64ObservableGauge
	late     metric.Int64ObservableCounter

	reloaded   metric.Int64ObservableGauge
	reloadedAt metric.Float64ObservableGauge
}

func newGauges(meter metric.Meter) (*gauges, error) {
	g := &gauges{meter: meter}
	var errs [16]error
	g.utilization, errs[0] = meter.Float64ObservableGauge("tallystick.memory.utilization", metric.WithUnit("1"),
		metric.WithDescription("The share of the memory's cells that are in use, of the limit that has the most."))
	g.inherited, errs[1] = meter.Int64ObservableCounter("tallystick.memory.inheritances", metric.WithUnit("{request}"),
		metric.WithDescription("Requests of clients that a full memory did not know, and that began with a count which was not theirs."))
	g.inheritedQuotas, errs[2] = meter.Float64ObservableCounter("tallystick.memory.inheritances.quotas", metric.WithUnit("{quota}"),
		metric.WithDescription("What those clients began with, in quotas."))
	g.saturations, errs[3] = meter.Int64ObservableCounter("tallystick.memory.saturations", metric.WithUnit("{request}"),
		metric.WithDescription("Sales, and requests with a proof, that were refused because the memory had no room for what was paid."))
	g.challenges, errs[4] = meter.Int64ObservableCounter("tallystick.challenges", metric.WithUnit("{challenge}"),
		metric.WithDescription("Challenges that were issued."))
	g.work, errs[5] = meter.Int64ObservableCounter("tallystick.challenges.work", metric.WithUnit("{hash}"),
		metric.WithDescription("What they asked for in all, in expected hashes."))
	g.proofs, errs[6] = meter.Int64ObservableCounter("tallystick.proofs", metric.WithUnit("{proof}"),
		metric.WithDescription("Proofs of work, by what came of them."))
	g.down, errs[7] = meter.Int64ObservableGauge("tallystick.exact.down", metric.WithUnit("{counter}"),
		metric.WithDescription("1 while the exact counter does not answer, else 0."))
	g.taken, errs[8] = meter.Float64ObservableGauge("tallystick.exact.utilization", metric.WithUnit("1"),
		metric.WithDescription("The share of the places for calls to the exact counter that are taken."))
	g.busy, errs[9] = meter.Int64ObservableGauge("tallystick.busy", metric.WithUnit("{instance}"),
		metric.WithDescription("1 while the instance is busy and asks newcomers for work, else 0."))
	g.refusing, errs[10] = meter.Int64ObservableGauge("tallystick.exact.refusing", metric.WithUnit("{counter}"),
		metric.WithDescription("1 while the exact counter answers and has refused most requests of most of ten seconds as load, else 0."))
	g.late, errs[11] = meter.Int64ObservableCounter("tallystick.exact.refunds.late", metric.WithUnit("{charge}"),
		metric.WithDescription("Charges that came back too late, and so did not."))
	g.reloaded, errs[12] = meter.Int64ObservableGauge("tallystick.reload.success", metric.WithUnit("{reload}"),
		metric.WithDescription("1 if the last reload of the policy file has succeeded, else 0."))
	g.reloadedAt, errs[13] = meter.Float64ObservableGauge("tallystick.reload.time", metric.WithUnit("s"),
		metric.WithDescription("When a reload has succeeded last, in Unix time."))
	g.tokens, errs[14] = meter.Int64ObservableCounter("tallystick.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that were shown, by what came of them."))
	g.secrets, errs[15] = meter.Int64ObservableGauge("tallystick.secret", metric.WithUnit("{secret}"),
		metric.WithDescription("1 for each secret that the instance has, by its key id, which is public."))
	return g, errors.Join(errs[:]...)
}

// Observe tells, whenever the metrics are read, of what a middleware counts itself: how full
// its memory is, what work costs, which secrets it has and which proofs and tokens are accepted, how its exact counter
// is. It is an error if one of the same policy is observed: the two would be one series. For them make two
// Instruments, with different attributes. To unregister ends it, for middlewares that do not live as
// long as the program.
func (i *Instruments) Observe(m *middleware.Middleware) (metric.Registration, error) {
	g := i.stats
	return i.register(fmt.Sprintf("policy %q is", m.Stats().Policy), func(_ context.Context, o metric.Observer) error {
		s := m.Stats()
		policy := i.withPolicy(s.Policy)
		o.ObserveFloat64(g.utilization, s.Fill, policy)
		o.ObserveInt64(g.inherited, int64(s.Inherited), policy)
		o.ObserveFloat64(g.inheritedQuotas, s.InheritedQuotas, policy)
		o.ObserveInt64(g.saturations, int64(s.Saturations), policy)
		o.ObserveInt64(g.challenges, int64(s.Challenges), policy)
		o.ObserveInt64(g.work, int64(s.Work), policy)
		for result, n := range s.Proofs { // from 0 on: no rate sees a counter that begins with 1
			o.ObserveInt64(g.proofs, int64(n), i.option(keyPolicy.String(s.Policy), keyProof.String(result)))
		}
		for result, n := range s.Tokens {
			o.ObserveInt64(g.tokens, int64(n), i.option(keyPolicy.String(s.Policy), keyToken.String(result)))
		}
		for _, kid := range s.KeyIDs {
			o.ObserveInt64(g.secrets, 1, i.option(keyPolicy.String(s.Policy), keyKid.String(kid)))
		}
		o.ObserveInt64(g.busy, oneIf(s.Busy), policy)
		if c := s.Counter; c != nil {
			o.ObserveInt64(g.down, oneIf(c.Down), policy)
			o.ObserveInt64(g.refusing, oneIf(c.Refusing), policy)
			o.ObserveFloat64(g.taken, c.Utilization, policy)
			o.ObserveInt64(g.late, int64(c.LateRefunds), policy)
		}
		return nil
	}, g.utilization, g.inherited, g.inheritedQuotas, g.saturations, g.challenges, g.work, g.proofs, g.tokens, g.secrets, g.taken, g.down, g.refusing, g.busy, g.late)
}

// ObserveReloads tells, whenever the metrics are read, whether the last reload of a policy file has
// succeeded, and when one has last. It is for a policyfile.Set, of which it does not need the package.
// Each further Set needs Instruments of its own, with different attributes.
func (i *Instruments) ObserveReloads(of interface {
	LastReload() (success time.Time, err error)
}) (metric.Registration, error) {
	g := i.stats
	return i.register("reloads are", func(_ context.Context, o metric.Observer) error {
		success, err := of.LastReload()
		all := i.option()
		o.ObserveInt64(g.reloaded, oneIf(err == nil), all)
		o.ObserveFloat64(g.reloadedAt, float64(success.UnixMilli())/1000, all)
		return nil
	}, g.reloaded, g.reloadedAt)
}

// register registers a callback for what has no series yet. What is a subject and its verb.
func (i *Instruments) register(what string, f metric.Callback, of ...metric.Observable) (metric.Registration, error) {
	if _, there := i.observed.LoadOrStore(what, nil); there {
		return nil, fmt.Errorf("otel: %s observed already: make another Instruments, with attributes of its own", what)
	}
	end := sync.OnceFunc(func() { i.observed.Delete(what) })
	r, err := i.stats.meter.RegisterCallback(f, of...)
	if err != nil {
		end()
		return nil, err
	}
	return &registration{r, end}, nil
}

// A registration is one that makes room for another, once.
type registration struct {
	metric.Registration
	end func()
}

func (r *registration) Unregister() error {
	err := r.Registration.Unregister()
	if err == nil {
		r.end()
	}
	return err
}

func oneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
