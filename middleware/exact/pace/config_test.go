// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/storeless"
)

func TestWhatNewRefuses(t *testing.T) {
	memory := memory.New(0, nil)
	second := meter(10, time.Second)
	for name, c := range map[string]struct {
		cfg  pace.Config
		says string
	}{
		"no counter":     {pace.Config{Name: "a", Limits: second}, "Counter: is required"},
		"no limit":       {pace.Config{Name: "a", Counter: memory}, "Limits: must have a limit"},
		"no name":        {pace.Config{Counter: memory, Limits: second}, "Name: must be 1 to 26"},
		"a bad name":     {pace.Config{Name: "A b", Counter: memory, Limits: second}, "Name: must be 1 to 26 of a-z"},
		"a long name":    {pace.Config{Name: strings.Repeat("a", 27), Counter: memory, Limits: second}, "Name: must be 1 to 26 of a-z"},
		"a long key":     {pace.Config{Name: "a", Key: strings.Repeat("k", 257), Counter: memory, Limits: second}, "Key: must have at most 256"},
		"a bad limit":    {pace.Config{Name: "a", Counter: memory, Limits: meter(0, time.Second)}, "Quota"},
		"a bad unit":     {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"tokens": meter(0, time.Second)}}, "Units[tokens]"},
		"no unit's name": {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"": second}}, "without a name"},
		"the gate":       {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"pause": second}}, `"pause"`},
		"five units":     {pace.Config{Name: "a", Counter: memory, Limits: second, Units: map[string]limits{"b": second, "c": second, "d": second, "e": second}}, "4 is the most"},
		"negative":       {pace.Config{Name: "a", Counter: memory, Limits: second, MaxWaiting: -1}, "MaxWaiting: must be at least 1"},
		"never":          {pace.Config{Name: "a", Counter: memory, Limits: second, MaxWait: -1}, "MaxWait: must be up to 1h0m0s"},
		"too patient":    {pace.Config{Name: "a", Counter: memory, Limits: second, MaxWait: 2 * time.Hour}, "MaxWait: must be up to 1h0m0s"},
		"no deadline":    {pace.Config{Name: "a", Counter: memory, Limits: second, Deadline: -1}, "Deadline: must be up to 1m0s"},
		"a window": {pace.Config{Name: "a", Counter: memory, Limits: limits{{Quota: 500, Window: time.Minute}}},
			"Limits[0].Algorithm: must be LeakyBucket or TokenBucket, not sliding-window: a window gives no moment to wait for"},
		"a unit's window": {pace.Config{Name: "a", Counter: memory, Units: map[string]limits{"tokens": {{Algorithm: storeless.FixedWindow, Quota: 500, Window: time.Minute}}}},
			"LeakyBucket{500 a 1m0s} never lets more than 500 through in any 1m0s, TokenBucket at most its Burst more"},
		"a log":            {pace.Config{Name: "a", Counter: memory, Limits: limits{{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}}}, "not sliding-log"},
		"all that he said": {pace.Config{Name: "a", Limits: limits{{Quota: 5, Window: time.Minute}}, MaxWait: -1}, "Counter: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pace.New(c.cfg)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, p)
			if name == "all that he said" {
				require.ErrorContains(t, err, "Limits[0].Algorithm")
				require.ErrorContains(t, err, "MaxWait")
			}
		})
	}
}

// What New takes at most.
func TestWhatNewTakes(t *testing.T) {
	memory := memory.New(0, nil)
	second := meter(10, time.Second)
	for name, cfg := range map[string]pace.Config{
		"the longest name": {Name: strings.Repeat("a", 26), Counter: memory, Limits: second},
		"the longest key":  {Name: "a", Key: strings.Repeat("k", 256), Counter: memory, Limits: second},
		"three units":      {Name: "a", Counter: memory, Limits: second, Units: map[string]limits{"b": second, "c": second, "d": second}},
		"four units":       {Name: "a", Counter: memory, Units: map[string]limits{"b": second, "c": second, "d": second, "e": second}},
		"most patient":     {Name: "a", Counter: memory, Limits: second, MaxWait: time.Hour, Deadline: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pace.New(cfg)
			require.NoError(t, err)
			require.NoError(t, p.Wait(t.Context()))
		})
	}
}

// Keys are counted apart.
func TestKeysAreCountedApart(t *testing.T) {
	memory := memory.New(0, nil)
	for _, key := range []string{"one account", "another", ""} {
		p := process(t, pace.Config{Counter: memory, Key: key, Limits: meter(1, time.Hour)})
		require.NoError(t, p.Wait(t.Context()))
	}
}
