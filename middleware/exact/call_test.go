// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

func TestWhatACallMayAskFor(t *testing.T) {
	buckets := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Second},
		storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute})
	mixed := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Second},
		storeless.Limit{Quota: 5, Window: time.Minute})
	for name, c := range map[string]struct {
		call  exact.Call
		field string
	}{
		"a plain call":                    {exact.Call{Policy: mixed, Cost: 1}, ""},
		"past":                            {exact.Call{Policy: mixed, Cost: 1, Past: true}, ""},
		"past, as dear as can be":         {exact.Call{Policy: mixed, Cost: storeless.MaxQuota, Past: true}, ""},
		"past, dearer":                    {exact.Call{Policy: mixed, Cost: storeless.MaxQuota + 1, Past: true}, "Cost"},
		"past, for nothing":               {exact.Call{Policy: mixed, Past: true}, "Cost"},
		"past, less than nothing":         {exact.Call{Policy: mixed, Cost: -1, Past: true, Pause: 1}, "Cost"},
		"ahead":                           {exact.Call{Policy: buckets, Cost: 1, Ahead: exact.MaxAhead}, ""},
		"further ahead":                   {exact.Call{Policy: buckets, Cost: 1, Ahead: exact.MaxAhead + 1}, "Ahead"},
		"behind":                          {exact.Call{Policy: buckets, Cost: 1, Ahead: -1}, "Ahead"},
		"ahead, for nothing":              {exact.Call{Policy: buckets, Ahead: 1}, "Cost"},
		"ahead in windows":                {exact.Call{Policy: mixed, Cost: 1, Ahead: 1}, "Ahead"},
		"ahead and past":                  {exact.Call{Policy: buckets, Cost: 1, Ahead: 1, Past: true}, "Ahead"},
		"ahead and a pause":               {exact.Call{Policy: buckets, Cost: 1, Ahead: 1, Pause: 1}, "Ahead"},
		"a pause":                         {exact.Call{Policy: mixed, Pause: exact.MaxPause}, ""},
		"a longer pause":                  {exact.Call{Policy: mixed, Pause: exact.MaxPause + 1}, "Pause"},
		"a pause that is over":            {exact.Call{Policy: mixed, Pause: -1}, "Pause"},
		"a pause and past":                {exact.Call{Policy: mixed, Cost: 3, Past: true, Pause: 1}, ""},
		"a pause, and past of nothing":    {exact.Call{Policy: mixed, Past: true, Pause: 1}, ""},
		"a pause that hangs on a verdict": {exact.Call{Policy: mixed, Cost: 1, Pause: 1}, "Pause"},
	} {
		t.Run(name, func(t *testing.T) {
			c.call.Key = "k"
			err := c.call.Check(context.Background())
			if c.field == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, exact.ErrCall)
			require.ErrorIs(t, err, exact.ErrNotCounted)
			require.ErrorContains(t, err, "a mistake in the Call: "+c.field+" ")
		})
	}
}
