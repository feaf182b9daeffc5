// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/proof/kit"
)

// A goroutine that holds any one of the stripes that a request needs holds the
// request up: check and charge, of all levels, are one step. Races would tell the same,
// now and then.
func TestEveryStripeIsHeld(t *testing.T) {
	// On one processor a goroutine that can run does so while this one yields.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := kit.Must(Compile("p", []Limit{{Quota: 1000, Window: time.Hour}}))(t)
	m := NewMemory(1<<16, 1)
	now := time.Unix(20_000*86_400, 0)
	at := func(stripe int) Key { return Key(stripe)<<32*Key(1<<32/len(m.paid.Stripes)) | 1<<20 }

	candidate := Candidate{
		Key:      at(1),
		Networks: []Network{{Key: at(5), Policy: p}, {Key: at(3), Policy: p}},
		Proof:    &Proof{Key: at(7), Expires: now.Add(time.Minute)},
	}
	plain := Candidate{Key: at(9)}
	counts := []Key{candidate.Key, candidate.Networks[0].Key, candidate.Networks[1].Key}
	for _, op := range []struct {
		name string
		do   func()
		all  cells.Stripes
		keys []Key
	}{
		{"Take", func() { m.Take(now, p, &plain, 1) }, m.counts.stripes, []Key{plain.Key}},
		{"Take, networks", func() { m.Take(now, p, &candidate, 1) }, m.counts.stripes, counts},
		{"Take, proof", func() { m.Take(now, p, &candidate, 1) }, m.paid.Stripes, []Key{candidate.Proof.Key}},
		{"Peek", func() { m.Peek(now, p, &candidate, 1) }, m.counts.stripes, counts},
		{"Record", func() { m.Record(now, p, &candidate, 1) }, m.counts.stripes, counts},
		{"Restore", func() { m.Restore(now, now, p, &candidate, 1) }, m.counts.stripes, counts},
	} {
		for i, key := range op.keys {
			kit.Waits(t, &op.all[op.all.Of(uint64(key))], op.do, fmt.Sprint(op.name, ", key ", i))
		}
	}
}

// With a million clients each line of cells that is looked at comes from main memory. A
// set has four; a tally's is nearly always the first, and a proof's.
func TestFoundAtFirstLook(t *testing.T) {
	const clients, line = 1 << 14, 64 / cells.Size
	p := kit.Must(Compile("p", []Limit{{Quota: 5, Window: time.Hour}}))(t)
	m := NewMemory(clients, 1)
	now := time.Unix(20_000*86_400, 0)
	lines := func(set []cells.Cell, first, tag uint32) int {
		for i := range uint32(cells.SetSize) {
			if set[(first+i)%cells.SetSize].Tag == tag {
				return int((first%line + i) / line)
			}
		}
		t.Fatal("it has no cell")
		return 0
	}
	var counts, proofs int
	each := func(do func(k Key)) {
		for n := range clients {
			do(Key(cells.Mix(uint64(n))))
		}
	}
	each(func(k Key) {
		f := Candidate{Key: k}
		if uint64(k)%16 == 0 { // what is paid for has fewer cells
			f.Proof = &Proof{Key: k, Expires: now.Add(time.Minute)}
		}
		_, v := m.Take(now, p, &f, 1)
		require.True(t, v.Admitted)
	})
	each(func(k Key) {
		at := m.counts.place(k)
		counts += lines(at.in((*m.counts.columns.Load())[0]), at.first, at.tag)
		if uint64(k)%16 == 0 {
			proofs += lines(m.paid.Place(uint64(k), cells.SpentID, 0))
		}
	})
	require.Less(t, counts, clients/10, "lines beyond the first, of %d tallies", clients)
	require.Less(t, proofs, clients/16/10, "lines beyond the first, of %d proofs", clients/16)
}
