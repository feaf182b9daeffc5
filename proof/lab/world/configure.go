// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/storeless"
)

// workFirst is 1 in the configurations in which work comes first on /busy whatever the load, and 0 in the others.
func (s settings) workFirst(n int) int64 {
	if s.byLoad {
		return 0
	}
	return int64(n % 2)
}

// configure returns the n-th configuration of a policy. Each differs from the one
// before it, in what may change while requests are served.
func (w *world) configure(policy string, n int) object {
	l := limitOf(policy, quotaOf(policy, n))
	if policy == paid {
		l.Algorithm, l.Window = storeless.FixedWindow, court.ExactWindow(time.Now())
	}
	limit := object{"name": l.Name, "algorithm": l.Algorithm.String(), "quota": l.Quota, "window": l.Window.String()}
	limits := []any{limit}
	p := object{"maxClients": 8192}
	if n%2 == 1 {
		p["fields"] = []string{"ratelimit", "x-ratelimit-in-seconds"}
	}
	challenge := object{"work": work, "path": "/" + policy + "/tally/"}
	switch policy {
	case windowed:
		if n%4 >= 2 { // a limit comes, has another name, goes
			limits = append(limits, object{"name": []string{"more", "other"}[n%2], "quota": 1_000_000, "window": l.Window.String()})
		}
		p["advanced"] = object{"net56Factor": 8 + n%2}
	case bucket:
		limit["burst"] = l.Burst
	case login:
		limits = append(limits, object{"name": "failed", "quota": failedQuota, "window": l.Window.String()})
		p["byOutcome"] = object{"limits": []string{"failed"}, "free": []int{200}}
	case form:
		p["challenge"], p["instances"] = challenge, instances
		if n%2 == 1 {
			challenge["mode"] = "newcomers"
		}
	case busy:
		p["challenge"], p["instances"] = challenge, instances
		challenge["mode"], challenge["busyPerSecond"] = "when-busy", perSecond
		if w.set.workFirst(n) == 1 {
			challenge["mode"], challenge["busyPerSecond"] = "newcomers", 0
		}
	case slow, crew:
		p["concurrency"] = object{"max": atOnce, "maxHold": "1h", "cancelHeld": n%2 == 1}
	case paid:
		// A busy machine is no outage: what is answered at all is answered in time.
		p["exact"] = object{"counter": house.Shared, "outage": "fail-closed", "deadline": fmt.Sprintf("%ds", 10-n%2)}
	}
	p["limits"] = limits
	if w.set.configured != nil {
		w.set.configured(policy, p)
	}
	return p
}

// write writes the files that instances are configured by.
func (w *world) write() error {
	policies := object{}
	for policy := range quotas {
		policies[policy] = w.configure(policy, w.configuration)
	}
	return house.Configure(w.set.dir, strings.Join(w.ring.secrets, "\n"), policies)
}

// reconfigure goes on to the next configuration, and the next step of a rotation, on every
// policy of every instance.
func (w *world) reconfigure() error {
	w.operating.Lock()
	defer w.operating.Unlock()
	w.configuration++
	n := w.configuration
	if w.set.hasty {
		w.life = -window
	}
	w.ring.next(w.House.Clock.Load(), w.life)
	for policy, q := range w.quotas {
		defer q.Change(quotaOf(policy, n))()
	}
	defer w.workFirst.Change(w.set.workFirst(n))()
	w.Reconfigured.Add(1)
	return errors.Join(w.write(), w.reload())
}

// reload has all instances read the files again.
func (w *world) reload() (err error) {
	for _, p := range w.House.Instances {
		err = errors.Join(err, p.Post("reload"))
	}
	return err
}

// wrong writes a file that no instance may take anything of.
func (w *world) wrong() error {
	w.operating.Lock()
	defer w.operating.Unlock()
	for _, text := range []string{`{"policies": {`, strings.Repeat(" ", 100) + `{"policies": {"window": {"limits": [{"quota": 0, "window": "1s"}]}}}`} {
		if err := house.Put(filepath.Join(w.set.dir, house.Policies), text); err != nil {
			return err
		}
		for _, p := range w.House.Instances {
			if p.Post("reload") == nil {
				w.Broken.Note("a file that is broken was taken")
			}
		}
		w.Refused.Add(1)
	}
	return w.write()
}
