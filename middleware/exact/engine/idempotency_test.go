// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A memory is of fixed size, whatever is refused with IDs, on one key or on many.
func TestRefusalsWithIDsTakeNoMemory(t *testing.T) {
	calls, shapes := 1_000_000, []int{1, 1000}
	if kit.Brief() {
		calls, shapes = 150_000, shapes[:1] // with a thousand keys they are all within the bound
	}
	for _, keys := range shapes {
		p := exactkit.PerHour(t, 5)
		m := memory.New(0, exacttest.NewClock().Now)
		ask := func(n int) exact.Verdict {
			v, err := m.Take(t.Context(), exact.Call{Key: strconv.Itoa(n % keys), Cost: 1, Policy: p, ID: fmt.Sprintf("%026d", n)})
			if err != nil {
				require.NoError(t, err)
			}
			return v
		}
		for n := range 5 * keys {
			require.True(t, ask(n).Admitted)
		}
		before := inUse()
		for n := range calls {
			require.False(t, ask(5*keys+n).Admitted)
		}
		after := inUse()
		t.Logf("%d keys: %d B for %d refused calls", keys, int64(after-before), calls)
		require.Less(t, int64(after-before), int64(32<<20)*int64(calls)/1_000_000)
		require.True(t, ask(5*keys+calls-1).Replayed, "the last is remembered")
		require.True(t, ask(0).Admitted, "what was admitted is remembered, however many are refused")
		require.True(t, ask(0).Replayed)
		runtime.KeepAlive(m)
	}
}

// What is remembered of a refusal is its verdict, but for how the limits stand.
func TestRefusalIsRememberedWithItsWait(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: 5, Window: time.Minute})
	clock := exacttest.NewClock()
	m := memory.New(0, clock.Now)
	take := func(cost int64, id string) exact.Verdict {
		return exactkit.Take(t, m, exact.Call{Key: "k", Cost: cost, Policy: p, ID: id})
	}
	four := take(4, "four")
	require.True(t, four.Admitted)
	refused, impossible := take(2, "refused"), take(6, "impossible")
	require.True(t, impossible.Impossible)
	clock.Advance(3 * time.Second)
	require.True(t, take(1, "one").Admitted)
	again := take(2, "refused")
	require.True(t, again.Replayed)
	require.False(t, again.Admitted)
	require.False(t, again.Impossible)
	require.Equal(t, refused.Wait, again.Wait)
	require.Zero(t, again.Limits[0].Remaining, "as it stands now")
	require.True(t, again.Limits[0].Blocked)
	again = take(6, "impossible")
	require.True(t, again.Replayed && again.Impossible && !again.Admitted)
	require.Zero(t, again.Wait)
	require.Zero(t, again.Receipt)
}
