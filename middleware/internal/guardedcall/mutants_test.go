package guardedcall

import (
	"testing"

	"github.com/tallystick/tallystick/internal/mutants"
)

// TestMutants breaks the breaker, the load and the refusals in turn; each time some test of this
// package must fail. What only requests can notice is in the list of package middleware.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
