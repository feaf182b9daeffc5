package user

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants/testdata/sample"
)

func TestUse(t *testing.T) {
	if sample.Thrice(2) != 6 || !sample.Allowed(1, 1) {
		t.Fatal("of no use")
	}
}
