// SPDX-License-Identifier: Apache-2.0

// Package kit is what tests of several packages and modules ask of the place
// they run in. It is imported by tests only.
package kit

import (
	"crypto/fips140"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/tallystick/tallystick/proof/program"
)

// Must is for a call that a test takes for granted: Must(os.Open(name))(t) is the file, and an error ends the test.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("an error that the test does not look for: %+v", err)
		}
		return v
	}
}

// Whole says that a test has its whole form to run: all seeds, all sizes, other programs. It is asked for by
// TALLYSTICK_WHOLE=1, as "make whole" does, so that plain "go test" is quick; -short, by which mutants are tried, refuses it.
func Whole() bool { return (os.Getenv("TALLYSTICK_WHOLE") != "" || Long()) && !testing.Short() }

// Brief says that a test has a cheap form to run: where the whole one is not asked for, and under the race
// detector, which looks at how things are done and not at how often.
func Brief() bool { return !Whole() || Race && !Long() }

// OnlyWhole skips a test that has no cheap form, and says what makes it dear.
func OnlyWhole(t testing.TB, why string) {
	t.Helper()
	if !Whole() {
		t.Skip("TALLYSTICK_WHOLE=1 runs this: it " + why)
	}
}

// Long says that time does not matter, as "make long" does.
func Long() bool { return os.Getenv("TALLYSTICK_LONG") != "" }

// Unable skips a test that this machine cannot run, and says so: the go command shows it with
// -v, or where the package fails. A build that promises to run everything, as "make test" does,
// sets TALLYSTICK_REQUIRE=1: then it fails.
func Unable(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("TALLYSTICK_REQUIRE") == "1" {
		t.Fatalf("TALLYSTICK_REQUIRE=1, but %s", why)
	}
	fmt.Fprintf(os.Stderr, "*** SKIPPED %s: %s; TALLYSTICK_REQUIRE=1 makes this fail\n", t.Name(), why)
	t.Skip(why)
}

// Outside skips a test under the race detector whose work is done by other programs, such as the
// go command: the detector sees nothing of them. "make whole" runs it, without the detector.
func Outside(t testing.TB) {
	t.Helper()
	if Race && !Long() {
		t.Skip("other programs do the work, and the race detector sees nothing of them; make whole runs it")
	}
}

// CollectLess is for a TestMain of tests that make memories of megabytes one after the other:
// collecting them took up to a third of the time. GOGC in the environment is obeyed.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(350 << 20) // of what two processors build beside it
	}
}

// FreePort is where no program listens on loopback; a moment later one may.
func FreePort(t testing.TB) string { return Must(program.FreePort())(t) }

// Together runs f n times at once, and returns when all have ended.
func Together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// Seeds fails where a fuzz target has fewer seeds than there were: the go command skips a folder that has moved
// without a word.
func Seeds(t testing.TB, least int, targets ...string) {
	t.Helper()
	for _, target := range targets {
		seeds, err := os.ReadDir(filepath.Join("testdata", "fuzz", target))
		if err != nil || len(seeds) < least {
			t.Errorf("%s has %d seeds, not %d: %v", target, len(seeds), least, err)
		}
	}
}

// Waits fails a test if do ends while a lock is held. On one processor, where it has to run, a
// goroutine that can run does so while this one yields.
func Waits(t *testing.T, lock sync.Locker, do func(), what string) {
	t.Helper()
	var ended atomic.Bool
	var group sync.WaitGroup
	lock.Lock()
	group.Go(func() { do(); ended.Store(true) })
	for range 100 {
		runtime.Gosched()
	}
	early := ended.Load()
	lock.Unlock()
	if group.Wait(); early {
		t.Fatalf("%s does not wait", what)
	}
}

// Bubble is [synctest.Test], where random bytes can be had in FIPS mode too: their source
// there measures how unevenly the clock runs, and panics in a bubble, whose clock stands.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if fips140.Enabled() {
		cryptotest.SetGlobalRandom(t, 1)
	}
	synctest.Test(t, f)
}

// RunBubble is t.Run of a [Bubble].
func RunBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { Bubble(t, f) })
}
