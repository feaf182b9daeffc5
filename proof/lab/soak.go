// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/lab/house"
)

// An operator configures the instances. In a soak it changes what they are configured by, all the time.
type operator struct {
	servers *house.Cluster
	dir     string
	rows    []row
	sc      scale
	n       int // the configuration
	secrets []string
	fresh   bool // the last secret was added, and does not sign yet
}

func secret() string { return rand.Text() + rand.Text() }

// write writes the files that instances are configured by.
func (o *operator) write() error {
	policies := map[string]any{}
	for _, r := range o.rows {
		policies[r.name] = r.routeOf(o.sc).policy(r.name, r.counter, o.n)
	}
	return house.Configure(o.dir, strings.Join(o.secrets, "\n"), policies)
}

// open starts the instances.
func (o *operator) open(ctx context.Context, made string) (err error) {
	serves := house.Config{
		Now: time.Now().Truncate(window*time.Second).Unix() + 60, Secret: []byte(secret()), Began: time.Now(),
	}
	if err = o.write(); err == nil {
		o.servers, err = house.Start(context.WithoutCancel(ctx), house.Plan{Dir: o.dir, Program: made, Size: o.sc.instances, Site: serves})
	}
	return err
}

// rotate takes the next step of a rotation as docs/operations.md says: a new secret is added last, everywhere; then it is
// moved first, everywhere. The old ones are dropped when the tokens that they have signed are dead.
func (o *operator) rotate(dead bool) {
	last := len(o.secrets) - 1
	switch {
	case dead && o.fresh:
		o.secrets = []string{o.secrets[0], o.secrets[last]}
	case dead:
		o.secrets = o.secrets[:1]
	case o.fresh:
		o.secrets = slices.Insert(o.secrets[:last], 0, o.secrets[last])
		o.fresh = false
	case len(o.secrets) < 8: // a Config takes no more
		o.secrets, o.fresh = append(o.secrets, secret()), true
	}
}

// reconfigure goes on to the next configuration. Before it there is one that no instance may take anything of.
func (o *operator) reconfigure(dead bool) error {
	o.n++
	o.rotate(dead)
	broken := `{"policies": {`
	if o.n%2 == 0 {
		broken += fmt.Sprintf(`%q: {"limits": [{"quota": 0, "window": "1s"}]}}}`, o.rows[0].name)
	}
	return o.servers.Reload(o.write, func() error { return house.Put(filepath.Join(o.dir, house.Policies), broken) })
}

// A soak plays rows again and again until its time is over, and those that go on meanwhile beside them.
type soak struct {
	operator
	long             time.Duration
	heap, goroutines series
}

// A playing plays the row of a number, for the pass-th time. A row that goes on meanwhile does so while on says it.
type playing func(ctx context.Context, number, pass int, on func() bool) error

// rounds plays the rows: one after the other, once, or in a soak again and again.
func (o *soak) rounds(ctx context.Context, play playing) error {
	if o.long == 0 {
		for i := range o.rows {
			if err := play(ctx, i, 0, func() bool { return false }); err != nil {
				return err
			}
		}
		return nil
	}
	over, end := context.WithCancel(ctx)
	defer end()
	on := func() bool { return over.Err() == nil }
	errs := make([]error, 1+len(o.rows))
	all := []func(){func() {
		defer end()
		errs[len(o.rows)] = o.passes(ctx, play)
	}}
	for i, r := range o.rows {
		if r.honest == meanwhile {
			all = append(all, func() {
				if err := play(ctx, i, 0, on); err != nil {
					errs[i] = err
					end()
				}
			})
		}
	}
	together(all...)
	return errors.Join(errs...)
}

// passes plays the rows that do not go on meanwhile. While each is played, the secrets and the policies change. After all of
// them it is a later window, and all tokens are dead.
func (o *soak) passes(ctx context.Context, play playing) error {
	for began, pass := time.Now(), 0; ctx.Err() == nil && (pass < 2 || time.Since(began) < o.long); pass++ {
		for i, r := range o.rows {
			if r.honest == meanwhile || r.counter != "" && pass > 0 { // a window of the exact routes does not end
				continue
			}
			var played, changed error
			together(func() { played = play(ctx, i, pass, nil) }, func() { changed = o.reconfigure(false) })
			if err := errors.Join(played, changed, o.look()); err != nil {
				return err
			}
		}
		if err := errors.Join(o.servers.Advance(3*window), o.reconfigure(true)); err != nil {
			return err
		}
	}
	return nil
}

// look notes what the last instance has in use, which no row starts anew.
func (o *soak) look() error {
	state, err := o.servers.Instances[o.sc.instances-1].State()
	o.heap, o.goroutines = append(o.heap, float64(state.Heap)), append(o.goroutines, float64(state.Goroutines))
	return err
}

// By how much the last quarter of a soak may be above the first one: what comes and goes, such as connections. A leak of 50
// bytes a request is more, in five minutes. In the first quarter of a short one not all clients have come.
const (
	heapGrowth       = 4 << 20
	goroutinesGrowth = 40
	growthShort      = 4
)

// grown returns what has grown.
func (o *soak) grown() (faults []house.Fault) {
	times := 1.0
	if o.long < time.Minute {
		times = growthShort
	}
	for _, g := range []struct {
		what string
		series
		most float64
	}{{"the live heap grows", o.heap, heapGrowth}, {"goroutines grow", o.goroutines, goroutinesGrowth}} {
		if by := g.quarter(0.75) - g.quarter(0); by > times*g.most {
			faults = append(faults, house.Fault{What: g.what, Why: fmt.Sprintf("by %.0f from the first quarter to the last: %.0f", by, g.series)})
		}
	}
	return faults
}

// A series is a number that is looked at again and again, and that must not grow.
type series []float64

// quarter is the mean of the quarter that begins at a part of it.
func (s series) quarter(from float64) (mean float64) {
	at := int(from * float64(len(s)))
	some := s[at:min(len(s), at+max(1, len(s)/4))]
	for _, y := range some {
		mean += y / float64(len(some))
	}
	return mean
}
