// SPDX-License-Identifier: Apache-2.0

// Package kit is what tests of several packages and modules ask of the place
// they run in. It is imported by tests only.
package kit

import (
	"fmt"
	"os"
	"testing"
)

// Brief says that a test has a cheap form to run: where time is short, and under the race
// detector, which looks at how things are done and not at how often.
func Brief() bool { return testing.Short() || Race && !Long() }

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
