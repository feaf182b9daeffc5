package sample_test

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants/testdata/sample"
)

func TestOutside(t *testing.T) {
	if sample.Twice(2) != 4 {
		t.Fatal("not twice")
	}
}

func TestElsewhere(t *testing.T) {
	if sample.Quarter(8) != 2 || sample.Word != "hello" {
		t.Fatal("not a quarter, or another word")
	}
}
