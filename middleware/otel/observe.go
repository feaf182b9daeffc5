// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/peers"
)

// Observe tells, whenever the metrics are read, of what a middleware counts itself: how full
// its memory is, what work costs, which secrets it has and which proofs and tokens are accepted, how its exact counter
// is. It is an error if one of the same policy is observed: the two would be one series. For them make two
// Instruments, with different attributes. To unregister ends it, for middlewares that do not live as
// long as the program.
func (i *Instruments) Observe(m *middleware.Middleware) (metric.Registration, error) {
	g := i.stats
	return i.register(fmt.Sprintf("policy %q is", m.Stats().Policy), func(_ context.Context, o metric.Observer) error {
		s := m.Stats()
		policy := i.option(keyPolicy.String(s.Policy))
		o.ObserveFloat64(g.utilization, s.Fill, policy)
		o.ObserveInt64(g.inherited, int64(s.Inherited), policy)
		o.ObserveFloat64(g.inheritedQuotas, s.InheritedQuotas, policy)
		o.ObserveInt64(g.saturations, int64(s.Saturations), policy)
		o.ObserveInt64(g.challenges, int64(s.Challenges), policy)
		o.ObserveInt64(g.work, int64(s.Work), policy)
		o.ObserveInt64(g.highest, int64(s.HighestWork), policy)
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
	}, g.utilization, g.inherited, g.inheritedQuotas, g.saturations, g.challenges, g.work, g.highest, g.proofs, g.tokens, g.secrets, g.taken, g.down, g.refusing, g.busy, g.late)
}

// ObserveReloads tells, whenever the metrics are read, whether the last reload of a policy file has
// succeeded, and when one has last. It is for a policyfile.Set, but does not need that package. Each
// further Set needs Instruments of its own, with different attributes.
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

// ObservePeers tells, whenever the metrics are read, which peers a process hears, and what it has of them. Each further
// group needs Instruments of its own, with different attributes.
func (i *Instruments) ObservePeers(of interface{ Stats() peers.Stats }) (metric.Registration, error) {
	g := i.stats
	return i.register("peers are", func(_ context.Context, o metric.Observer) error {
		s, all := of.Stats(), i.option()
		o.ObserveInt64(g.peers, int64(len(s.Heard)), i.option(keyPeer.String("heard")))
		o.ObserveInt64(g.peers, int64(len(s.Silent)), i.option(keyPeer.String("silent")))
		o.ObserveInt64(g.gone, int64(s.Gone), all)
		o.ObserveInt64(g.strangers, int64(s.Strangers), all)
		o.ObserveInt64(g.records, int64(s.Records), all)
		o.ObserveInt64(g.evicted, int64(s.Evicted), all)
		o.ObserveInt64(g.waited, int64(s.Waited), all)
		o.ObserveInt64(g.waitedOut, int64(s.Busy), all)
		o.ObserveInt64(g.slack, int64(s.Slack), all)
		return nil
	}, g.peers, g.gone, g.strangers, g.records, g.evicted, g.waited, g.waitedOut, g.slack)
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

// A registration makes room for another when it ends, once.
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
