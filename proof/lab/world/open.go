// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// openWorld starts all servers.
func openWorld(ctx context.Context, set settings) (_ *world, err error) {
	w := newWorld(set)
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err = w.write(); err != nil {
		return nil, err
	}
	plan := house.Plan{Dir: set.dir, Program: set.program, Size: instances, TLS: true, Spread: true, Redis: set.redis, Site: house.Config{
		Now: begin(w.exact), Policies: []string{filepath.Join(set.dir, "policies.json"), filepath.Join(set.dir, "exact.json")},
	}}
	if set.wrap != nil {
		plan.Wrap = func(h http.Handler) http.Handler { return set.wrap(w, h) }
	}
	// The instances are ended by the world, not with the time of their clients.
	servers, err := house.Start(context.WithoutCancel(ctx), plan)
	if err != nil {
		return nil, err
	}
	w.Open(servers)
	state, err := servers.Instances[0].State()
	for policy, life := range state.Life {
		w.life[exact(policy)] = max(life, w.life[exact(policy)])
	}
	return w, err
}

// newWorld returns a world without servers.
func newWorld(set settings) *world {
	w := &world{
		set: set, exact: int64(court.ExactWindow(time.Now()) / time.Second), short: newRing(), long: newRing(),
		quotas: map[string]*court.Quotas{}, findings: findings{exactly: map[string]*court.Exact{}}, workFirst: court.NewQuotas(set.workFirst(0)), life: map[bool]int64{},
	}
	terms := map[string]*court.Terms{}
	for policy := range quotas {
		w.quotas[policy] = court.NewQuotas(quotaOf(policy, 0))
		terms[policy] = termsOf(policy, w.quotas[policy])
		if x := terms[policy].Exact; x != nil {
			w.exactly[policy] = x
		}
	}
	w.oracle = court.NewOracle(terms)
	w.oracle.Strict, w.oracle.Slack = true, set.slack
	w.Stage = &court.Stage{Oracle: w.oracle, Ctx: context.Background(), Net: [2]byte{10}}
	w.Lost = func(who court.Who, standing int64, why error) {
		if who.Honest && w.Away.Stood(standing) {
			w.NoAnswer.Note("%s on /%s: %v", who.Name, who.Policy, why)
		}
	}
	return w
}

// close ends everything that openWorld has started.
func (w *world) close() {
	if w.House != nil {
		w.Fail(w.House.Stop())
	}
	w.Rest()
}
