// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
)

// lossy loses the answer of the next swap, when it is told to.
type lossy struct {
	cas.Store
	lose *atomic.Bool
}

func (s lossy) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	err := s.Store.Swap(ctx, name, revision, value, keep)
	if err == nil && s.lose.CompareAndSwap(true, false) {
		return errors.New("the connection was cut")
	}
	return err
}

// OnAStore runs the suite of package exacttest on a counter on a store, by a clock of the test, and has
// answers be lost.
func OnAStore(t *testing.T, store cas.Store) {
	clock, lose := exacttest.NewClock(), new(atomic.Bool)
	require.NoError(t, (&exacttest.Suite{
		Open:       func() (exact.Counter, error) { return cas.New(lossy{store, lose}, cas.Config{Now: clock.Now}) },
		Clock:      clock,
		LoseAnswer: func(exact.Counter) { lose.Store(true) },
	}).Test())
}
