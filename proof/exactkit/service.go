// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// A scene is how many processes run for how long, and when the service says how long it wants
// to be left alone.
type scene struct {
	processes           int
	runs, refuses, wait time.Duration
}

// Paced runs the processes: fifty for a minute in a long run, else a few for some seconds. In
// the middle of it the service refuses once, with a Retry-After.
func Paced(t *testing.T, where string, open func(where string) (exact.Counter, error)) {
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
	counter, err := open(where)
	require.NoError(t, err)
	leftNothing(t, counter, l.said.Add(s.wait))
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
			out, err := child(where, "paces", service, s.runs.String()).Output()
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
// no test judges it. A long run judges what came after the service had refused, and how long a call waited.
func (l *limited) judge(t *testing.T, s scene, said *said) {
	t.Helper()
	moments := said.moments()
	require.GreaterOrEqual(t, len(l.calls), s.processes)
	require.False(t, l.said.IsZero(), "the service has refused")
	require.GreaterOrEqual(t, len(moments), len(l.calls))
	require.LessOrEqual(t, mostInASecond(moments), 10, "booked for a second")
	for i, at := range l.calls { // their clocks are read one after the other
		require.False(t, at.Before(moments[i].Add(-time.Millisecond)), "call %d came %s before its moment", i, moments[i].Sub(at))
	}
	tooLate := 0
	for _, at := range l.calls {
		if since := at.Sub(l.said); since > time.Second && since < s.wait {
			tooLate++
		}
	}
	mean, longest := time.Duration(0), slices.Max(said.waits)
	for _, w := range said.waits {
		mean += w / time.Duration(len(said.waits))
	}
	t.Logf("%d processes: %d calls, most seen in a second %d; waits: mean %s, longest %s; %d came more than a second after a refusal",
		s.processes, len(l.calls), mostInASecond(l.calls), mean.Round(time.Millisecond), longest.Round(time.Millisecond), tooLate)
	if kit.Long() {
		require.Zero(t, tooLate)
		require.LessOrEqual(t, longest, 2*mean+s.wait+s.wait/10, "a call that waits in the pause waits for that besides")
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
func leftNothing(t *testing.T, counter exact.Counter, paused time.Time) {
	t.Helper()
	v := Peek(t, counter, exact.Call{Key: "paced", Cost: 1, Policy: Compile(t, paced(counter).Limits...), Ahead: exact.MaxAhead})
	require.LessOrEqual(t, v.Wait, time.Second+max(0, time.Until(paused)), "the next call would wait behind calls that are no more")
}
