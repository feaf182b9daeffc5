// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/internal/lab/judge"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// A rule is a policy of a fleet. The quota of its first limit goes up and down, if it moves.
type rule struct {
	policy string
	limits []middleware.Limit
	moves  bool
	more   map[string]any // what else the file says of it
	quota  *judge.Quotas
}

// byOutcome is the name of a limit that counts failures.
const byOutcome = "failed"

// rulesFor are those of a run, for windows of some length: quotas are such that clients are as quick whatever that is.
func rulesFor(length, window time.Duration) map[string]*rule {
	per := func(halfMinute int64) int64 { return max(2, halfMinute*int64(window/time.Second)/30) }
	short := func(a storeless.Algorithm, n int64) middleware.Limit {
		return middleware.Limit{Name: "short", Algorithm: a, Quota: per(n), Window: window}
	}
	bucket := short(middleware.TokenBucket, 40)
	bucket.Burst = 8
	day := middleware.Limit{Name: "day", Quota: higher(per(40)) * (int64(length/window) + 1), Window: 24 * time.Hour}
	ample := []middleware.Limit{{Quota: 1_000_000, Window: window}}
	all := map[string]*rule{
		instance.Sliding: {limits: []middleware.Limit{short(storeless.SlidingWindow, 40), day}, moves: true},
		instance.Fixed:   {limits: []middleware.Limit{short(middleware.FixedWindow, 40)}, moves: true},
		instance.Bucket:  {limits: []middleware.Limit{bucket}, moves: true},
		instance.LogIn: {
			limits: []middleware.Limit{short(storeless.SlidingWindow, 40), {Name: byOutcome, Quota: per(12), Window: window}}, moves: true,
			more: map[string]any{"byOutcome": map[string]any{"limits": []string{byOutcome}, "free": []int{204}}},
		},
		instance.AtOnce: {limits: ample, more: map[string]any{"concurrency": map[string]any{"max": 4}}},
		instance.Form: {
			limits: []middleware.Limit{short(storeless.SlidingWindow, 10)},
			more: map[string]any{"instances": fleetSize, "challenge": map[string]any{
				"work": leastWork, "crowd": 64, "priceMemory": "1m", "path": "/" + instance.Form + "/tally/", "waitingRoom": map[string]any{"closed": true},
			}},
		},
		instance.Upload:  {limits: ample},
		instance.Early:   {limits: ample},
		instance.Proxied: {limits: ample},
	}
	for policy, r := range all {
		r.policy, r.quota = policy, judge.NewQuotas(r.limits[0].Quota)
	}
	return all
}

// higher is a quota that has gone up.
func higher(quota int64) int64 { return quota + max(1, quota/4) }

// now is Begin of its quota, if it has one.
func (r *rule) now() func() judge.Spread {
	if r.quota == nil {
		return func() judge.Spread { return judge.Spread{} }
	}
	return r.quota.Begin()
}

// spread returns what the quota of a limit may have been.
func (r *rule) spread(limit int, first judge.Spread) judge.Spread {
	if limit == 0 {
		return first
	}
	return judge.Spread{Least: r.limits[limit].Quota, Most: r.limits[limit].Quota}
}

// write writes the files that a fleet is configured by, each whole or not at all.
func (f *fleet) write() error {
	policies := map[string]any{}
	for name, r := range f.rules {
		var limits []any
		for i, l := range r.limits {
			if i == 0 && r.moves && f.up {
				l.Quota = higher(l.Quota)
			}
			limit := map[string]any{"algorithm": l.Algorithm.String(), "quota": l.Quota, "window": l.Window.String()}
			if l.Name != "" {
				limit["name"] = l.Name
			}
			if l.Burst > 0 {
				limit["burst"] = l.Burst
			}
			limits = append(limits, limit)
		}
		policies[name] = map[string]any{"limits": limits}
		for key, value := range r.more {
			policies[name].(map[string]any)[key] = value
		}
	}
	text, err := json.Marshal(map[string]any{
		"secrets":  map[string]any{"file": "secrets"},
		"identity": map[string]any{"from": "forwarded-for", "trusted": []string{"127.0.0.0/24"}},
		"policies": policies,
	})
	if err != nil {
		return err
	}
	if err := f.put("secrets", strings.Join(f.ring, "\n")); err != nil {
		return err
	}
	return f.put("policies.json", string(text))
}

func (f *fleet) put(name, text string) error {
	file := filepath.Join(f.dir, name)
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// reload has all processes read the files again.
func (f *fleet) reload() error {
	if err := f.write(); err != nil {
		return err
	}
	for _, p := range f.cluster.instances {
		if err := p.post("/reload"); err != nil {
			return err
		}
	}
	f.found.reloads++
	return nil
}

// move has the quotas go up, or down.
func (f *fleet) move() error {
	f.up = !f.up
	for _, r := range f.rules {
		if q := r.limits[0].Quota; r.moves && f.up {
			defer r.quota.Change(higher(q))()
		} else if r.moves {
			defer r.quota.Change(q)()
		}
	}
	return f.reload()
}

// wrong writes a file that no process may take anything of.
func (f *fleet) wrong() error {
	for _, text := range []string{`{"policies": {`, strings.Repeat(" ", 100) + `{"policies": {"sliding": {"limits": [{"quota": 0, "window": "1s"}]}}}`} {
		if err := f.put("policies.json", text); err != nil {
			return err
		}
		for _, p := range f.cluster.instances {
			if p.post("/reload") == nil {
				f.broken.Note("a file that is broken was taken")
			}
		}
		f.found.refusedFiles++
	}
	return f.write()
}

// The three steps of a rotation.
func (f *fleet) add() error {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	f.ring = append(f.ring, fmt.Sprintf("%x", secret))
	return f.reload()
}

func (f *fleet) lead() error {
	f.ring[0], f.ring[len(f.ring)-1] = f.ring[len(f.ring)-1], f.ring[0]
	return f.reload()
}

func (f *fleet) drop() error {
	f.ring = f.ring[:1]
	f.found.rotations++
	return f.reload()
}
