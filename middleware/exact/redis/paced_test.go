// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"testing"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/paced"
)

// Real processes share one limit on a server, each booking its calls.
func TestPaced(t *testing.T) { paced.Test(t, startServer(t).url(), opensAt(t)) }

func TestPacedChild(t *testing.T) { paced.Child(t, opensAt(t)) }

func opensAt(t *testing.T) func(url string) (exact.Counter, error) {
	return func(url string) (exact.Counter, error) { return dialed(t, url) }
}
