// SPDX-License-Identifier: Apache-2.0

package paced

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// A scene is how many processes run for how long, and when the service says how long it wants
// to be left alone.
type scene struct {
	processes           int
	runs, refuses, wait time.Duration
}

// Test runs the processes: fifty for a minute in a long run, else a few for some seconds. In
// the middle of it the service refuses once, with a Retry-After.
func Test(t *testing.T, where string, open func(where string) (exact.Counter, error)) {
	t.Helper()
	s := scene{processes: 6, runs: 4 * time.Second, refuses: time.Second, wait: time.Second}
	if kit.Long() {
		s = scene{processes: 50, runs: time.Minute, refuses: 20 * time.Second, wait: 10 * time.Second}
	}
	l := &limited{refuses: s.refuses, wait: s.wait}
	service := httptest.NewServer(l)
	defer service.Close()
	said := s.run(t, where, service.URL)
	l.judge(t, s, said)
	leftNothing(t, where, open, l.said.Add(s.wait))
}

// said is what the processes say.
type said struct {
	waits  []time.Duration
	booked map[string]time.Time // by serial, without what was given back
}

// moments are those that were used, in order.
func (s *said) moments() []time.Time {
	return slices.SortedFunc(maps.Values(s.booked), time.Time.Compare)
}

func (s *said) read(out []byte) {
	for line := range strings.Lines(string(out)) {
		var serial string
		var us int64
		if n, _ := fmt.Sscanf(line, "waited %d", &us); n == 1 {
			s.waits = append(s.waits, time.Duration(us)*time.Microsecond)
		}
		if n, _ := fmt.Sscanf(line, "booked %s %d", &serial, &us); n == 2 {
			s.booked[serial] = time.UnixMicro(us)
		}
		if n, _ := fmt.Sscanf(line, "back %s", &serial); n == 1 {
			delete(s.booked, serial)
		}
	}
}

// run starts the processes.
func (s *scene) run(t *testing.T, where, service string) *said {
	t.Helper()
	all := &said{booked: map[string]time.Time{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range s.processes {
		wg.Go(func() {
			child := exec.Command(os.Args[0], "-test.run=^TestPacedChild$")
			child.Env = append(os.Environ(), envCounter+"="+where, envService+"="+service, envRuns+"="+s.runs.String())
			out, err := child.CombinedOutput()
			if err != nil {
				t.Errorf("a process: %v\n%s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			all.read(out)
		})
	}
	wg.Wait()
	return all
}

// A limited service writes down when it is called.
type limited struct {
	refuses, wait time.Duration

	mu    sync.Mutex
	calls []time.Time
	said  time.Time // when it refused
}

func (l *limited) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.calls = append(l.calls, now)
	if l.said.IsZero() && now.Sub(l.calls[0]) > l.refuses {
		l.said = now
		w.Header().Set("Retry-After", fmt.Sprint(int(l.wait.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// judge says what was booked, and what the service saw of it. The moments are judged to the
// microsecond, and no call may come before its moment. Later it may, by what a scheduler and a
// network take, and so two may come closer together than they were booked: that is logged, and
// no test judges it.
func (l *limited) judge(t *testing.T, s scene, said *said) {
	t.Helper()
	moments := said.moments()
	if len(l.calls) < s.processes || l.said.IsZero() || len(moments) < len(l.calls) {
		t.Fatalf("%d calls, at %d moments", len(l.calls), len(moments))
	}
	t.Logf("%d processes: %d calls in %s; most booked for a second %d, most seen in one %d", s.processes, len(l.calls),
		l.calls[len(l.calls)-1].Sub(l.calls[0]).Round(time.Millisecond), mostInASecond(moments), mostInASecond(l.calls))
	if most := mostInASecond(moments); most > 10 {
		t.Errorf("%d were booked for a second", most)
	}
	for i, at := range l.calls {
		if at.Before(moments[i].Add(-time.Millisecond)) { // their clocks are read one after the other
			t.Errorf("call %d came %s before its moment", i, moments[i].Sub(at))
		}
	}
	tooLate, first := 0, time.Hour
	for _, at := range l.calls {
		switch since := at.Sub(l.said); {
		case since >= s.wait:
			first = min(first, since)
		case since > time.Second:
			tooLate++
		}
	}
	slices.Sort(said.waits)
	mean, longest := time.Duration(0), said.waits[len(said.waits)-1]
	for _, w := range said.waits {
		mean += w / time.Duration(len(said.waits))
	}
	t.Logf("waits: mean %s, longest %s; refused, %d more came after a second, and the first behind the pause after %s",
		mean.Round(time.Millisecond), longest.Round(time.Millisecond), tooLate, first.Round(time.Millisecond))
	if !kit.Long() {
		return
	}
	if tooLate > 0 {
		t.Errorf("%d calls came when the service had wanted to be left alone for a second", tooLate)
	}
	if longest > 2*mean+s.wait+s.wait/10 { // who waits in the pause waits for that besides
		t.Errorf("one waited %s, where the mean is %s", longest, mean)
	}
}

// mostInASecond returns how many lie in any second, its end not included.
func mostInASecond(at []time.Time) (most int) {
	for i, from := range at {
		n, _ := slices.BinarySearchFunc(at, from.Add(time.Second), time.Time.Compare)
		most = max(most, n-i)
	}
	return most
}

// leftNothing fails if what the calls booked that were cancelled at the end stays charged. Their
// processes gave it back as they ended, or it leaks out: nothing is ahead but the pause, where the service was late to
// want one.
func leftNothing(t *testing.T, where string, open func(where string) (exact.Counter, error), paused time.Time) {
	t.Helper()
	counter, err := open(where)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := exact.Compile("paced", Config(counter).Limits)
	if err != nil {
		t.Fatal(err)
	}
	v, err := counter.Peek(context.Background(), exact.Call{Key: "paced", Cost: 1, Policy: policy, Ahead: exact.MaxAhead})
	if err != nil {
		t.Fatal(err)
	}
	if v.Wait > time.Second+max(0, time.Until(paused)) {
		t.Errorf("the next call would wait %s behind calls that are no more", v.Wait)
	}
}
