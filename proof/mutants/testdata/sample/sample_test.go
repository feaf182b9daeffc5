package sample

import "testing"

func TestAllowed(t *testing.T) {
	if !Allowed(3, 3) || Allowed(4, 3) { // and negative numbers are forgotten
		t.Fatal("not the limit")
	}
}

func TestSpin(t *testing.T) {
	if Spin(2) != 2 {
		t.Fatal("dizzy")
	}
}
