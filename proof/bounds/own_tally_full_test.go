// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// Addresses cost nothing, and fill the memory. What a client has paid for
// with work has cells of its own there: it is worth what was paid, however many come.
func TestAFloodTakesNothingFromPayers(t *testing.T) {
	for name, mode := range map[string]middleware.Mode{"WhenExhausted": middleware.WhenExhausted, "Newcomers": middleware.Newcomers} {
		t.Run(name, func(t *testing.T) {
			cfg := handlers.Challenging(new(handlers.Clock), mode)
			cfg.MaxClients = 8
			h := handlers.NewSite(t, cfg)
			for range 2 * 5 { // more than once what each may
				fillWith(h, 400)
			}
			proof := handlers.Solved(t, handlers.Fetched(h))
			require.Equal(t, 5, handlers.Admitted(h, 20, handlers.Proving(proof)))
		})
	}
}

// A pass has what it has for all of its life, also where strangers take its cells: what
// the others have counted fades at midnight, and a pass's does not.
func TestPassesOutliveTheirWindowsInAFullMemory(t *testing.T) {
	seeds := uint64(20)
	if kit.Brief() {
		seeds = 3
	}
	for name, row := range map[string]struct {
		limits []middleware.Limit
		memory time.Duration
		pass   int // in all
	}{
		"a day, fixed": {[]middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}, time.Hour, 3},
		"a day":        {[]middleware.Limit{{Quota: 50, Window: 24 * time.Hour}}, time.Hour, 3},
		"two minutes":  {[]middleware.Limit{{Quota: 6, Window: 2 * time.Minute}}, time.Minute, 3},
		"a bucket":     {[]middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 72, Window: 24 * time.Hour}}, time.Hour, 3},
	} {
		t.Run(name, func(t *testing.T) {
			most := 0
			for seed := range seeds {
				r, now := handlers.Random(seed), new(handlers.Clock)
				now.Advance(24*time.Hour - time.Minute)
				cfg := handlers.Challenging(now, middleware.WhenExhausted)
				cfg.Limits, cfg.MaxClients, cfg.Challenge.PassTime = row.limits, 1, row.memory
				h := handlers.NewSite(t, cfg)
				token, own := handlers.Bought(t, h), 0
				for range 100 {
					for range r.IntN(40) {
						handlers.Send(h, handlers.From(fmt.Sprintf("198.51.%d.%d", r.IntN(256), r.IntN(256))))
					}
					for range r.IntN(3) {
						if handlers.Send(h, handlers.Showing(token)).StatusCode == http.StatusOK && h.Decisions.Last().Own {
							own++
						}
					}
					now.Advance(time.Duration(r.Int64N(int64(time.Minute))))
				}
				most = max(most, own)
			}
			require.Equal(t, row.pass, most)
		})
	}
}

// What passes have used stays where the configuration changes, as all counts do.
func TestReconfigureKeepsWhatPassesHaveUsed(t *testing.T) {
	cfg := handlers.Challenging(new(handlers.Clock), middleware.WhenExhausted)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := handlers.NewSite(t, cfg)
	token := handlers.Bought(t, h)
	require.Equal(t, 2*5, handlers.Admitted(h, 20, handlers.Showing(token)), "the pass, and what all share")
	require.NoError(t, h.M.Reconfigure(cfg))
	require.Zero(t, handlers.Admitted(h, 20, handlers.Showing(token)))

	sizes := regexp.MustCompile(`memory="[^"]+"`).FindAllString(log.String(), -1)
	require.Len(t, sizes, 2, "at New, and at Reconfigure")
	require.Equal(t, sizes[0], sizes[1], "the room for passes is there before the first is sold")
}
