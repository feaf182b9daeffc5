// SPDX-License-Identifier: Apache-2.0

package bounds_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// sites are configurations that people have: the forms of README, an API with tiers, and the limits of the recipe gateway.
func sites() map[string]middleware.Config {
	site := func(change func(*middleware.Config)) middleware.Config {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.MaxClients = 1 << 14
		change(&cfg)
		return cfg
	}
	return map[string]middleware.Config{
		"form": site(func(cfg *middleware.Config) {
			cfg.Limits = []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}}
		}),
		"form with work": site(func(cfg *middleware.Config) {
			cfg.Limits = []middleware.Limit{{Quota: 3, Window: 10 * time.Minute}}
			cfg.Challenge = &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/", NoWaitingRoom: true, Work: 1 << 18}
		}),
		"API": site(func(cfg *middleware.Config) {
			cfg.Limits = []middleware.Limit{{Name: "minute", Quota: 6, Window: time.Minute}, {Name: "day", Quota: 30, Window: 24 * time.Hour}}
			cfg.Tiers = map[string][]middleware.Limit{"pro": {{Name: "minute", Quota: 20, Window: time.Minute}, {Name: "day", Quota: 100, Window: 24 * time.Hour}}}
			cfg.Identity = handlers.ByTier(middleware.PeerAddress)
		}),
		"gateway": site(func(cfg *middleware.Config) {
			cfg.Limits = []middleware.Limit{
				{Name: "requests", Algorithm: middleware.TokenBucket, Quota: 60, Burst: 60, Window: time.Minute},
				{Name: "requests-month", Quota: 20_000, Calendar: "month"},
				{Name: "tokens", Algorithm: middleware.TokenBucket, Quota: 90_000, Burst: 90_000, Window: time.Minute},
				{Name: "tokens-month", Quota: 10_000_000, Calendar: "month"},
			}
			cfg.Units = map[string]middleware.Unit{"tokens": {Limits: []string{"tokens", "tokens-month"}, Cost: func(r *http.Request) int64 {
				n, _ := strconv.ParseInt(r.Header.Get("Tokens"), 10, 64)
				return n
			}}}
			cfg.Exact = &middleware.Exact{Outage: middleware.FailClosed, Deadline: 10 * time.Second}
		}),
	}
}

// An admission is a request that was admitted: when, and what it cost in the unit of a row.
type admission struct {
	at   time.Time
	cost int64
}

// mostOf returns the most that a limit has admitted: in one of its windows, or of a bucket in any span as long as a window.
func mostOf(l middleware.Limit, all []admission) (most int64) {
	sums, span, from := map[time.Time]int64{}, int64(0), 0
	for _, s := range all {
		if l.Algorithm == middleware.TokenBucket {
			for span += s.cost; s.at.Sub(all[from].at) > l.Window; from++ {
				span -= all[from].cost
			}
			most = max(most, span)
			continue
		}
		begins := s.at.UTC().Truncate(l.Window) // as windows of minutes and days are aligned to the epoch
		if l.Calendar == "month" {
			begins = time.Date(s.at.UTC().Year(), s.at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
		}
		sums[begins] += s.cost
		most = max(most, sums[begins])
	}
	return most
}

// of48 are 8 /64 of each of 8 /56 of a /48, which fill it.
func of48(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i%8<<8|i/8%8) }

// playSite plays the client of a row from the first second of a month on, until its limits are used up.
func playSite(t *testing.T, cfg middleware.Config, row middleware.Bound) (all []admission) {
	f := newFleet(t, cfg)
	from := f.now.Now().UTC()
	f.now.Advance(time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(from))
	costs := []int64{1}
	if row.Unit != "" {
		costs = []int64{1500, 500} // as many tokens as come with each request
	}
	ask := func(instance int, cost int64, options ...handlers.Option) (next string, ok bool) {
		options = append(options, handlers.With("Tier", row.Tier, "Tokens", strconv.FormatInt(cost, 10)))
		if next, ok = f.ask(instance, options...); ok {
			all = append(all, admission{f.now.Now(), cost})
		}
		return next, ok
	}
	drain := func(options ...handlers.Option) {
		for i := range f.instances {
			for _, cost := range costs {
				for ok := true; ok; {
					_, ok = ask(i, cost, options...)
				}
			}
		}
	}
	if work := workOf(row.Client); work > 0 {
		addr := anAddress
		if strings.HasPrefix(row.Client, "holds a whole") {
			addr = of48
		}
		f.now.Advance(time.Second)
		shown := f.buy(work/4, addr) // what it buys early costs less
		f.now.Advance(time.Hour - time.Second)
		shown = append(shown, f.buy(work-work/4, addr)...)
		for i, token := range shown {
			drain(handlers.From(addr(i)), handlers.Showing(token))
		}
		return all
	}
	token, addresses := "", 1
	switch row.Client {
	case "holds a whole IPv6 /48":
		addresses = 64
	case "holds a whole IPv6 /48, each /64 a client":
		addresses = 2 // of 65,536
	case "echoes its newest token":
		if cfg.Challenge != nil {
			token = cmp.Or(f.buy(2*cfg.Challenge.Work, anAddress)...)
		}
	}
	for before, still, n := -1, 0, 0; still < 6; n++ {
		if row.Client == "echoes its newest token" {
			for turn, refused := 0, 0; refused < len(f.instances); turn++ {
				next, ok := ask(turn%len(f.instances), 1, handlers.From(anAddress(0)), handlers.Showing(token))
				if token = cmp.Or(next, token); !ok {
					refused++
				}
			}
		} else {
			for i := range addresses {
				drain(handlers.From(of48(i)))
			}
			if row.Client == "the same, and the counter does not answer" {
				f.down = true
				drain(handlers.From(of48(0)))
				f.down = false
			}
		}
		if still++; len(all) > before {
			still, before = 0, len(all)
		}
		if cfg.Exact != nil && n < 90 { // the first minute of a bucket
			f.now.Advance(time.Second)
		} else {
			f.now.Advance(30 * time.Second)
		}
	}
	return all
}

// What Bounds says of four sites on 1, 3 and 10 instances is what their clients get: no more, and all of it, or more than half if
// they buy: the buyer is not as clever as can be.
func TestBoundsOfSites(t *testing.T) {
	sizes := []int64{3}
	if kit.Whole() {
		sizes = []int64{1, 3, 10}
	}
	for name, cfg := range sites() {
		for _, n := range sizes {
			cfg.Instances = n
			bounds := kit.Must(middleware.BoundsOf(cfg))(t)
			t.Logf("%s\n%s", name, bounds)
			played := map[string][]admission{}
			for _, row := range bounds.Rows {
				if !kit.Whole() && (workOf(row.Client) > coreHashes || name == "gateway" && row.Client != "whatever it sends") {
					continue
				}
				key := strings.Join([]string{row.Tier, row.Client, row.Unit}, "/")
				if played[key] == nil {
					played[key] = playSite(t, cfg, row)
				}
				got, least, left := mostOf(row.Limit, played[key]), row.Admitted, int64(0)
				if row.Unit != "" {
					left = 1000 // that no request is as small as
				}
				switch {
				case strings.HasSuffix(row.Client, "each /64 a client"): // two of them
					least = row.Admitted/(1<<15) - 2*left
				case workOf(row.Client) > 0:
					least = row.Admitted / 2
				default:
					least -= left
				}
				require.LessOrEqual(t, got, row.Admitted, "%s, N = %d: %s, of %v", name, n, row.Client, row.Limit)
				require.GreaterOrEqual(t, got, least, "%s, N = %d: %s, of %v", name, n, row.Client, row.Limit)
			}
		}
	}
}
