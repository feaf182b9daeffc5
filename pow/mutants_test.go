package pow

import (
	"testing"

	"github.com/tallystick/tallystick/internal/mutants"
)

// TestMutants: each check, taken out, is missed by a test.
func TestMutants(t *testing.T) { mutants.Run(t, ".", mutants.Load(t, "testdata/mutants.json")) }
