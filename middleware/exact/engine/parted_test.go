// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/lease"
)

// What wraps an engine is parted as it is.
func TestPartsShowThroughWrappers(t *testing.T) {
	call := exact.Call{Key: "four"}
	for want, of := range map[int]engine.Batcher{4: parted{}, 0: whole{}} {
		merged := engine.Merge(of)
		require.Equal(t, want, merged.(engine.Parted).Part(call))
		leased, err := lease.New(merged, lease.Config{})
		require.NoError(t, err)
		require.Equal(t, want, leased.(engine.Parted).Part(call))
	}
}

// whole is a batcher that nobody calls.
type whole struct{ exact.Counter }

func (whole) TakeAll(context.Context, []exact.Call) ([]exact.Verdict, error) {
	return nil, exact.ErrNotCounted
}

// parted has a part for each length of keys.
type parted struct{ whole }

func (parted) Part(call exact.Call) int { return len(call.Key) }
