// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/proof/kit"
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

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run '^$' -bench . -memprofilerate 1 -memprofile mem.out ./pow,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it on the stack, or in what the caller has already:\n" +
	"each request, and each forged one, pays for it. Raise a budget only with a reason in the commit."

// TestAllocations: neither a good proof nor a flood of bad ones makes garbage.
func TestAllocations(t *testing.T) {
	is := newIssuer(t, secretA)
	proof := solved(t, is, 16)
	forged := strings.Replace(proof, proof[100:104], "AAAA", 1)
	huge := strings.Repeat(proof, 1<<16)
	verify := func(b Binding, p string, now time.Time) func() {
		return func() { _, _ = is.Verify(now, b, p) }
	}
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"issue":       {1, func() { _, _ = is.Issue(epoch, alice, 16) }},
		"verify":      {0, verify(alice, proof, epoch)},
		"forged":      {0, verify(alice, forged, epoch)},
		"expired":     {0, verify(alice, proof, time.Time{})},
		"binding":     {0, verify(Binding{}, proof, epoch)},
		"wrong":       {0, verify(alice, proof+"0", epoch)},
		"huge":        {0, verify(alice, huge, epoch)},
		"huge answer": {0, verify(alice, proof+strings.Repeat("1", 300), epoch)},
		"alphabet":    {0, verify(alice, "!"+proof[1:], epoch)},
		"parse huge":  {0, func() { _, _ = parse(huge) }},
		"field huge":  {0, func() { _, _ = ParseHeader(huge) }},
	} {
		t.Run(name, func(t *testing.T) {
			if kit.Race {
				// The race detector makes sync.Pool forget at random.
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range 10 {
					c.f()
				}
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(huge)))
				return
			}
			require.LessOrEqual(t, testing.AllocsPerRun(1000, c.f), c.most, moreAllocations)
		})
	}
}
