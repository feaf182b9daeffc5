// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/storeless"
)

// Whoever holds any one of the stripes that a request needs holds the request
// up: check and charge, of all levels, are one step. Races would tell the same,
// now and then.
func TestEveryStripeIsHeld(t *testing.T) {
	// On one processor a goroutine that can run does so while this one yields.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := Compile("p", []storeless.Limit{{Quota: 1000, Window: time.Hour}})
	require.NoError(t, err)
	m := NewMemory(1<<16, 1)
	now := time.Unix(20_000*86_400, 0)
	at := func(stripe int) Key { return Key(stripe)<<32*Key(1<<32/len(m.paid.Stripes)) | 1<<20 }

	candidate := Candidate{
		Key:      at(1),
		Networks: []Network{{Key: at(5), Policy: p}, {Key: at(3), Policy: p}, {Key: at(6), Policy: p}},
		Proof:    &Proof{Key: at(7), Expires: now.Add(time.Minute)},
	}
	plain := Candidate{Key: at(9)}
	counts := []Key{candidate.Key, candidate.Networks[0].Key, candidate.Networks[1].Key, candidate.Networks[2].Key}
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
	} {
		for i, key := range op.keys {
			testkit.Waits(t, &op.all[op.all.Of(uint64(key))], op.do, fmt.Sprint(op.name, ", key ", i))
		}
	}
}
