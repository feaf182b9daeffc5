// SPDX-License-Identifier: Apache-2.0

package cas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// What stores have from earlier versions is counted on with, and what a later one has written is refused
// by name, and left as it is: it is never taken for nothing.
func TestAccountsOfOtherVersions(t *testing.T) {
	accounts := exactkit.Earlier(t)
	p := exactkit.Compile(t, storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 600, Window: time.Hour})
	name, call := cas.StoreName(p.AccountName("k")), exact.Call{Key: "k", Cost: 1, Policy: p}
	for version, value := range accounts {
		t.Run(version, func(t *testing.T) {
			clock := exacttest.NewClock()
			clock.Advance(35 * time.Second)
			store := newShelf(clock.Now)
			c, err := cas.New(store, cas.Config{Now: clock.Now})
			require.NoError(t, err)
			require.True(t, store.swap(name, "", value, time.Hour))
			require.EqualValues(t, 595, exactkit.Take(t, c, call).Limits[0].Remaining, "four of five, and this one")

			later := "\x05" + string(value[1:])
			require.True(t, store.swap(name, store.values[name].revision, []byte(later), time.Hour))
			_, err = c.Take(t.Context(), call)
			require.ErrorIs(t, err, exact.ErrNotCounted)
			require.ErrorContains(t, err, "an account in format 5, of a later version")
			require.Equal(t, later, store.values[name].value)
		})
	}
}
