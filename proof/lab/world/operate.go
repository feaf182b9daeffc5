// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/lab/house"
)

// operate goes on to the next configuration again and again, and begins rotations. For most of the time all instances have the same.
func (w *world) operate(ctx context.Context) {
	next, rotations := time.NewTimer(w.set.reconfigure), time.NewTicker(w.set.rotate)
	defer next.Stop()
	defer rotations.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			began := time.Now()
			if err := w.reconfigure(); err != nil && ctx.Err() == nil {
				w.Fail(err)
			}
			next.Reset(max(w.set.reconfigure, 3*time.Since(began)))
		case <-rotations.C:
			w.ring.rotate()
		}
	}
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

// write writes the files that instances are configured by.
func (w *world) write() error {
	policies := object{}
	for policy := range quotas {
		policies[policy] = configure(policy, w.configuration, w.exact)
	}
	return house.Configure(w.set.dir, strings.Join(w.ring.secrets, "\n"), policies)
}

// end judges the last windows, and closes everything. It is not interrupted.
func (w *world) end() {
	w.Close(math.MaxInt64)
	w.Verdict()
	w.Rest()
	w.hear()
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		left := w.files("files-*/*")
		if len(left) == 0 || time.Now().After(until) {
			w.Left.Add(int64(len(left)))
			break
		}
	}
	for _, p := range w.House.Instances {
		w.ends(p)
	}
	for name, note := range map[string]func(string){
		"race.*": func(text string) {
			for range strings.Count(text, "WARNING: DATA RACE") {
				w.Races.Note("%.4000s", text)
			}
		},
		"*.said": func(text string) {
			if i := strings.Index(text, "panic"); i >= 0 {
				w.Broken.Note("%.2000s", text[i:])
			}
		},
	} {
		for _, file := range w.files(name) {
			text, err := os.ReadFile(file)
			w.Fail(err)
			note(string(text))
		}
	}
	w.Fail(w.House.Stop())
	w.Rest()
}

// files returns the files of the instances that have such a name.
func (w *world) files(name string) []string {
	files, _ := filepath.Glob(filepath.Join(w.set.dir, name))
	return files
}

// ends asks an instance to end.
func (w *world) ends(p *house.Process) {
	if err := p.End(); err != nil {
		w.Deaths.Note("%v: %s", err, p.Said())
	}
}

// restart has an instance end while requests come, and starts another in its place.
func (w *world) restart(i int) {
	w.operating.Lock()
	defer w.operating.Unlock()
	w.Away.Change()
	defer w.Away.Change()
	at := w.House.Clock.Load()
	err := w.House.Restart(i, func(p *house.Process) error {
		w.ends(p)
		return nil
	})
	if err != nil {
		w.Fail(fmt.Errorf("a restart: %w", err))
		return
	}
	w.Oracle.Restart(i, at)
	w.Restarts.Add(1)
}

// hear takes what the instances have seen, and returns the state of the first.
func (w *world) hear() (first house.State) {
	for i, p := range w.House.Instances {
		if p.Ended() {
			w.Deaths.Note("%s", p.Said())
			w.Fail(w.House.Replace(i))
			continue
		}
		s, err := p.State()
		w.Fail(err)
		if i == 0 {
			first = s
		}
		w.most = max(w.most, s.Served)
		w.phase().computed = append(w.phase().computed, s.Computed...)
		for _, line := range s.Logged {
			w.Trouble.Note("%s", line)
		}
	}
	return first
}

// openWorld starts all servers.
func openWorld(ctx context.Context, set settings) (*world, error) {
	w := newWorld(set)
	if err := w.write(); err != nil {
		return nil, err
	}
	// The instances are ended by the world, not with the time of their clients.
	servers, err := house.Start(context.WithoutCancel(ctx), house.Plan{Dir: set.dir, Program: set.program, Size: instances, Spread: true, Site: house.Config{
		Now: time.Now().Unix()/window*window + middle,
	}})
	if err != nil {
		return nil, err
	}
	w.Open(servers)
	state, err := servers.Instances[0].State()
	for policy, life := range state.Life {
		if policy != paid {
			w.life = max(w.life, life)
		}
	}
	w.Fail(err)
	return w, nil
}
