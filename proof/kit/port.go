// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"

	"github.com/tallystick/tallystick/proof/program"
)

// FreePort is where no program listens on loopback; a moment later one may.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := program.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
