// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"testing"
	"time"
)

func BenchmarkIssue(b *testing.B) {
	is := newIssuer(b, secretA)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := is.Issue(epoch, alice, DefaultWork); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	is := newIssuer(b, secretA)
	proof := solved(b, is, DefaultWork)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := is.Verify(epoch, alice, proof); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyParallel(b *testing.B) {
	is := newIssuer(b, secretA)
	proof := solved(b, is, DefaultWork)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := is.Verify(epoch, alice, proof); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRefuse is what a flood costs.
func BenchmarkRefuse(b *testing.B) {
	is := newIssuer(b, secretA)
	good := solved(b, is, DefaultWork)
	forged := []byte(good)
	forged[120] ^= 1 // in the targets: the kid still fits, so the MAC is computed
	for _, c := range []struct {
		name, proof string
		now         time.Time
		b           Binding
	}{
		{"forged", string(forged), epoch, alice},
		{"malformed", good[:len(good)-1] + "x", epoch, alice},
		{"expired", good, epoch.Add(time.Hour), alice},
		{"binding", good, epoch, Binding{Client: []byte("bob"), Route: "contact"}},
		{"wrong", good + "0", epoch, alice},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := is.Verify(c.now, c.b, c.proof); err == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

// BenchmarkSearch is the rate of one core: ns/op is ns per hash.
func BenchmarkSearch(b *testing.B) {
	var seed [32]byte
	m := newMessage(&seed, 0)
	target := []byte("no such")
	if _, ok := m.search(target[:targetLen], 0, uint32(b.N)); ok {
		b.Fatal("a match of 48 bits")
	}
}

// BenchmarkSolve is a whole challenge of the default price on all cores.
func BenchmarkSolve(b *testing.B) {
	is := newIssuer(b, secretA)
	for b.Loop() {
		c, err := is.Issue(epoch, alice, DefaultWork)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Solve(b.Context(), c.Text, SolveOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*DefaultWork/b.Elapsed().Seconds()/1e6, "Mhash/s")
}
