// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/court"
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
			w.short.rotate()
			w.long.rotate()
		}
	}
}

// end compares all accounts that are open with the server, judges the last windows, and closes
// everything. It is not interrupted.
func (w *world) end() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if w.Down.Now()%2 == 1 {
		w.revive(ctx)
	}
	w.settle(ctx, true)
	w.Close(w.House.Clock.Load() + window)
	w.Verdict()
	w.Rest()
	w.hear()
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		left, _ := filepath.Glob(filepath.Join(w.set.dir, "files-*", "*"))
		if w.Files = int64(len(left)); w.Files == 0 || time.Now().After(until) {
			break
		}
	}
	for _, p := range w.House.Instances {
		if err := p.End(); err != nil {
			w.Deaths.Note("%v: %s", err, p.Said())
		}
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
		files, _ := filepath.Glob(filepath.Join(w.set.dir, name))
		for _, file := range files {
			text, err := os.ReadFile(file)
			w.Fail(err)
			note(string(text))
		}
	}
	w.close()
}

// restart has an instance end while requests come, and starts another in its place. The first lives as long as the world.
func (w *world) restart(ctx context.Context, i int) {
	w.operating.Lock()
	defer w.operating.Unlock()
	w.Away.Change()
	defer w.Away.Change()
	w.Down.Change() // to Redis it connects anew
	defer w.Down.Change()
	at := w.House.Clock.Load()
	err := w.House.Restart(i, func(p *house.Process) error {
		if err := p.End(); err != nil {
			w.Deaths.Note("%v: %s", err, p.Said())
		}
		return nil
	})
	if err != nil {
		w.Fail(fmt.Errorf("a restart: %w", err))
		return
	}
	w.Oracle.Restart(i, at)
	w.Restarts.Add(1)
	for _, policy := range []string{paid, open} {
		w.answersAgain(ctx, policy, i)
	}
}

// kill kills Redis: from the moment before, no answer is promised.
func (w *world) kill() {
	w.Down.Change()
	w.House.Redis.Kill()
	w.Kills.Add(1)
}

// revive starts Redis again, and waits until every instance has it back, for good.
func (w *world) revive(ctx context.Context) {
	if err := w.House.Redis.Start(); err != nil {
		w.Fail(err)
		return
	}
	for _, policy := range []string{paid, open} {
		for i := range instances {
			if !w.answersAgain(ctx, policy, i) {
				return
			}
		}
	}
	w.Down.Change()
}

// answersAgain asks an instance until its counter has decided two dozen times running: each connection
// that has died with the server fails once.
func (w *world) answersAgain(ctx context.Context, policy string, at int) bool {
	c := w.caller(policy, "probe", at)
	for row, end := 0, time.Now().Add(patience); row < 24; {
		a := c.Ask(fleet.Request{To: at})
		d, _ := house.Parse(a.Header)
		switch {
		case d.Call == "answered":
			row++
			continue
		case ctx.Err() != nil:
			return false
		case time.Now().After(end):
			w.Unanswered.Note("instance %d, /%s, still: %s", at, policy, court.Told(a))
			return false
		}
		row = 0
		time.Sleep(10 * time.Millisecond) // the breaker lets one through in a while
	}
	return true
}

// hear takes what the instances have seen, and returns the state of the first.
func (w *world) hear() (first house.State) {
	for i, p := range w.House.Instances {
		if p.Died() {
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
		for _, took := range s.Computed {
			w.phase().computed.add(took)
		}
		for _, line := range s.Logged {
			w.Trouble.Note("%s", line)
		}
		if slices.Contains(s.Busy, busy) {
			w.Busy.Add(1)
		}
	}
	return first
}
