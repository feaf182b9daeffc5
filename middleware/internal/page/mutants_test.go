package page

import (
	"testing"

	"github.com/tallystick/tallystick/internal/mutants"
)

// TestMutants breaks what keeps the text of others from being read as ours in turn; each time some test of this
// package must fail. What only requests can notice is in the list of package middleware.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
