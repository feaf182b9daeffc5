// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kit

import (
	"testing"

	"github.com/tallystick/tallystick/proof/program"
)

// Redis starts a server that keeps nothing, and returns its address once it answers.
func Redis(t testing.TB) string {
	t.Helper()
	if _, err := program.FindRedis(); err != nil {
		Unable(t, "%v", err)
	}
	server := Must(program.StartRedis(t.TempDir()))(t)
	t.Cleanup(server.Kill)
	return server.Addr()
}
