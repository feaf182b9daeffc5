package paced

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware/exact"
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
	if testkit.Long() {
		s = scene{processes: 50, runs: time.Minute, refuses: 20 * time.Second, wait: 10 * time.Second}
	}
	l := &limited{refuses: s.refuses, wait: s.wait}
	service := httptest.NewServer(l)
	defer service.Close()
	waits := s.run(t, where, service.URL)
	l.judge(t, s, waits)
	leftNothing(t, where, open)
}

// run starts the processes, and returns how long their calls waited.
func (s *scene) run(t *testing.T, where, service string) (waits []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range s.processes {
		all.Go(func() {
			child := exec.Command(os.Args[0], "-test.run=^TestPacedChild$")
			child.Env = append(os.Environ(), envCounter+"="+where, envService+"="+service, envRuns+"="+s.runs.String())
			out, err := child.CombinedOutput()
			if err != nil {
				t.Errorf("a process: %v\n%s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				var us int64
				if n, _ := fmt.Sscanf(lines.Text(), "waited %d", &us); n == 1 {
					waits = append(waits, time.Duration(us)*time.Microsecond)
				}
			}
		})
	}
	all.Wait()
	return waits
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

// judge says what the service saw. On the way from its moment a call may be held up, by a
// scheduler and a network, and the next not: what they may add to a span is slack, and only
// the long run, which has a machine to itself, is judged by spans of a second at all.
func (l *limited) judge(t *testing.T, s scene, waits []time.Duration) {
	t.Helper()
	const slack = 100 * time.Millisecond
	if len(l.calls) < s.processes || l.said.IsZero() {
		t.Fatalf("only %d calls", len(l.calls))
	}
	all := l.calls[len(l.calls)-1].Sub(l.calls[0])
	most, late := 0, 0
	first := time.Hour
	for i, from := range l.calls {
		n, _ := slices.BinarySearchFunc(l.calls, from.Add(time.Second-slack), time.Time.Compare)
		most = max(most, n-i)
		switch since := from.Sub(l.said); {
		case since > time.Second && since < s.wait:
			late++
		case since >= s.wait:
			first = min(first, since)
		}
	}
	slices.Sort(waits)
	mean := time.Duration(0)
	for _, w := range waits {
		mean += w / time.Duration(len(waits))
	}
	t.Logf("%d processes, %d calls in %s; most in a second %d; waits: mean %s, longest %s; refused, %d more came a second later, and the first after %s",
		s.processes, len(l.calls), all.Round(time.Millisecond), most, mean.Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond), late, first.Round(time.Millisecond))
	if over := len(l.calls) - 1 - int((all+slack).Seconds()*10); over > 0 {
		t.Errorf("%d calls too many", over)
	}
	if !testkit.Long() {
		return
	}
	if most > 10 {
		t.Errorf("%d calls in a second", most)
	}
	if late > 0 {
		t.Errorf("%d calls more than a second after the service wanted to be left alone", late)
	}
	// Who waits in the pause waits for that besides.
	if longest := waits[len(waits)-1]; longest > 2*mean+s.wait+s.wait/10 {
		t.Errorf("one waited %s, where the mean is %s", longest, mean)
	}
}

// leftNothing fails if what the calls booked that were cancelled at the end stays charged. Their
// processes gave it back as they ended, or it leaks out: nothing is ahead.
func leftNothing(t *testing.T, where string, open func(where string) (exact.Counter, error)) {
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
	if v.Wait > time.Second {
		t.Errorf("the next call would wait %s behind calls that are no more", v.Wait)
	}
}
