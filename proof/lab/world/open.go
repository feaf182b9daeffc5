// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/judge"
)

// openWorld starts all servers.
func openWorld(ctx context.Context, set settings) (_ *world, err error) {
	w := &world{
		set: set, clocks: newClocks(exactWindow(time.Now())), short: newRing(), long: newRing(), book: newBook(set.slack),
		quotas: quotasOf(), workFirst: judge.NewQuotas(set.workFirst(0)), life: map[bool]func() int64{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}},
	}
	w.worst = w.book.worst
	w.exact = map[string]*ledger{
		paid: newLedger(exactQuota, 0, true),
		open: newLedger(exactQuota, instances*(exactQuota/instances), false),
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.redis, err = house.NewRedis(set.dir, set.redis); err != nil {
		return nil, err
	}
	if err = w.redis.Start(ctx); err != nil {
		return nil, err
	}
	if err = w.write(); err != nil {
		return nil, err
	}
	plan := house.Plan{Dir: set.dir, Program: set.program, Size: instances, TLS: true, Spread: true, Site: instance.Config{
		Now: w.clocks.right.Load(), Counters: map[string]string{"shared": w.redis.URL()},
		Policies: []string{filepath.Join(set.dir, "policies.json"), filepath.Join(set.dir, "exact.json")},
	}}
	if set.wrap != nil {
		plan.Wrap = func(h http.Handler) http.Handler { return set.wrap(w, h) }
	}
	// The instances are ended by the world, not with the time of their clients.
	if w.house, err = house.Start(context.WithoutCancel(ctx), plan); err != nil {
		return nil, err
	}
	w.clocks.house = w.house
	for i, p := range w.house.Instances {
		w.where[i] = p.Where
	}
	state, err := w.house.Instances[0].State()
	for policy, life := range state.Life {
		was := w.life[exact(policy)]
		w.life[exact(policy)] = func() int64 {
			if set.life != nil {
				return set.life()
			}
			if was != nil {
				return max(life, was())
			}
			return life
		}
	}
	return w, err
}

// close ends everything that openWorld has started.
func (w *world) close() {
	if w.house != nil {
		w.fail(w.house.Stop())
	}
	w.rest()
	if w.redis != nil {
		w.redis.Kill()
	}
}
