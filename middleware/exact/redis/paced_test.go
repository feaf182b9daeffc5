// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"testing"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
)

// Real processes share one limit on a server, each booking its calls.
func TestPaced(t *testing.T) { exactkit.Paced(t, startServer(t).url(), opensAt(t)) }

func opensAt(t *testing.T) func(url string) (exact.Counter, error) {
	return func(url string) (exact.Counter, error) { return dialed(t, url) }
}
