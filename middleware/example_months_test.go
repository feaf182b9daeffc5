// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

func customerOf(*http.Request) (middleware.Identity, error) { return middleware.Principal("ada"), nil }

// monthly has each month of the calendar, in UTC, be counted apart.
func monthly(r *http.Request) (middleware.Identity, error) {
	id, err := customerOf(r)
	return id.For(time.Now().UTC().Format("2006-01")), err
}

// A quota of a calendar month is all there on the first, whatever was used before, and little more than all of
// it passes in the month in which a window of 366 days ends: docs/api.md. The bubble begins with 2000,
// and such a window ends on 24 January.
func TestCalendarMonths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 1000
		h := newLimiter(t, middleware.Config{
			Policy:   "api",
			Limits:   []middleware.Limit{{Name: "month", Quota: quota, Window: 366 * 24 * time.Hour}},
			Secrets:  [][]byte{secret("a")},
			Identity: monthly,
			Exact:    &middleware.Exact{Counter: memory.New(0, time.Now), Outage: middleware.FailClosed},
		}).Handler(new(spy))
		passed := map[string]int{}
		for time.Now().Month() < time.April {
			month := time.Now().UTC().Format("January")
			first := passed[month] == 0
			for send(h).StatusCode == http.StatusOK {
				passed[month]++
			}
			if first {
				require.Equal(t, quota, passed[month], "%s, at once", month)
			}
			time.Sleep(6 * time.Hour)
		}
		t.Log(passed)
		require.Less(t, passed["January"], quota*109/100)
		require.Equal(t, quota, passed["February"])
		require.Equal(t, quota, passed["March"])
	})
}
