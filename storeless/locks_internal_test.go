// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever stripes a request names, and in whatever order, it locks each once
// and in ascending order: two requests never wait for each other. Were it
// otherwise, the parallel tests would hang now and then; this one fails.
func TestLocksAscend(t *testing.T) {
	const stripes = 4
	for n := range 1 << (2 * len(locks{}.stripes)) { // all lists of four stripes
		var l locks
		var want []int
		for i := range l.stripes {
			stripe := n >> (2 * i) % stripes
			l.add(stripe)
			want = append(want, stripe)
			slices.Sort(want)
			want = slices.Compact(want)
			require.Equal(t, want, l.stripes[:l.n])
		}
	}
}

// Whoever holds any one of the stripes that a request needs holds the request
// up: check and charge, of all levels, are one step. Races would tell the same,
// now and then.
func TestEveryStripeIsHeld(t *testing.T) {
	// On one processor a goroutine that can run does so while this one yields.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := Compile("p", []Limit{{Quota: 1000, Window: time.Hour}})
	require.NoError(t, err)
	prices, err := Tariff{Work: 16, Crowd: 8, Memory: time.Hour}.Compile()
	require.NoError(t, err)
	m := NewMemory(1<<16, 1)
	now := time.Unix(20_000*86_400, 0)
	at := func(stripe int) Key { return Key(stripe)<<32*Key(1<<32/len(m.paid.stripes)) | 1<<20 }

	candidate := Candidate{
		Key:      at(1),
		Networks: []Network{{Key: at(5), Policy: p}, {Key: at(3), Policy: p}, {Key: at(6), Policy: p}},
		Proof:    &Proof{Key: at(7), Expires: now.Add(time.Minute)},
	}
	plain := Candidate{Key: at(9)}
	buyers := []Buyer{{Key: at(2), Crowds: 1}, {Key: at(8), Crowds: 8}, {Key: at(4), Crowds: 64}}
	counts := []Key{candidate.Key, candidate.Networks[0].Key, candidate.Networks[1].Key, candidate.Networks[2].Key}
	ledgers := []Key{buyers[0].Key, buyers[1].Key, buyers[2].Key}
	for _, op := range []struct {
		name string
		do   func()
		all  stripes
		keys []Key
	}{
		{"Take", func() { m.Take(now, p, &plain, 1) }, m.counts.stripes, []Key{plain.Key}},
		{"Take, networks", func() { m.Take(now, p, &candidate, 1) }, m.counts.stripes, counts},
		{"Take, proof", func() { m.Take(now, p, &candidate, 1) }, m.paid.stripes, []Key{candidate.Proof.Key}},
		{"Peek", func() { m.Peek(now, p, &candidate, 1) }, m.counts.stripes, counts},
		{"Quote", func() { m.Quote(now, prices, buyers) }, m.paid.stripes, ledgers},
		{"Redeem", func() { m.Redeem(now, prices, buyers, at(6), now.Add(time.Hour), 16) }, m.paid.stripes, append(ledgers, at(6))},
	} {
		for i, key := range op.keys {
			lock := &op.all[op.all.stripe(key)]
			lock.Lock()
			done := make(chan struct{})
			go func() {
				op.do()
				close(done)
			}()
			for range 100 {
				runtime.Gosched()
			}
			select {
			case <-done:
				lock.Unlock()
				t.Fatalf("%s does not wait for its key %d", op.name, i)
			default:
			}
			lock.Unlock()
			<-done
		}
	}
}
