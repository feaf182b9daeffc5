package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A greedyBuyer is one client behind one address that buys every tally there is and uses
// each to the last request.
type greedyBuyer struct {
	t    *testing.T
	h    *site
	now  *clock
	held map[string]string // the newest token of each tally that is alive, by its id
}

// buy buys all that is for sale, and returns how many tallies that was.
func (b *greedyBuyer) buy() (tallies int) {
	for {
		resp := fetched(b.h)
		if resp.Header.Get(middleware.ChallengeHeader) == "" {
			return tallies
		}
		resp = redeemed(b.h, solved(b.t, resp))
		if resp.StatusCode != http.StatusOK {
			return tallies
		}
		b.held[claimsIn(b.t, tokenIn(resp)).Fam] = tokenIn(resp)
		tallies++
	}
}

// spend sends what each tally, and the shared one, admits at this moment.
func (b *greedyBuyer) spend() (passed int) {
	for send(b.h).StatusCode == http.StatusOK {
		passed++
	}
	for id, tok := range b.held {
		if claimsIn(b.t, tok).Exp <= b.now.Now().Unix() {
			delete(b.held, id)
			continue
		}
		for {
			resp := send(b.h, showing(tok))
			if resp.StatusCode != http.StatusOK {
				break
			}
			passed++
			if next := tokenIn(resp); claimsIn(b.t, next).Fam == id {
				tok = next
			}
		}
		b.held[id] = tok
	}
	return passed
}

// A day's quota is not for sale every hour: what a tally is worth is a pass, on the third
// day as on the first. (When a tally had the whole quota and lived for two days, this buyer
// had 19,250, 37,295 and 45,744 requests of 50 a day.)
func TestThreeDaysOfBuying(t *testing.T) {
	minute := middleware.Limit{Name: "minute", Quota: 5, Window: time.Minute}
	day := middleware.Limit{Name: "day", Quota: 50, Window: 24 * time.Hour}
	for name, test := range map[string]struct {
		limits []middleware.Limit
		pass   int
	}{
		"50 a day":                 {[]middleware.Limit{day}, 3},
		"5 a minute and 50 a day":  {[]middleware.Limit{minute, day}, 5},
		"50 a day, a fixed window": {[]middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 50, Window: 24 * time.Hour}}, 3},
		"50 a day, a bucket":       {[]middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 50, Window: 24 * time.Hour}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.WhenExhausted)
			cfg.Limits, cfg.Challenge.Crowd, cfg.Challenge.WaitingRoom.Closed = test.limits, 8, true
			b := &greedyBuyer{t, newSite(t, cfg), now, map[string]string{}}
			shared := &greedyBuyer{t, newSite(t, cfg), now, nil} // what the address has for nothing
			for day := 1; day <= 3; day++ {
				tallies, passed, free := 0, 0, 0
				for range 24 {
					tallies += b.buy()
					for range 12 {
						passed += b.spend()
						free += shared.spend()
						now.advance(5 * time.Minute)
					}
				}
				t.Logf("day %d: %d tallies, %d requests admitted", day, tallies, passed)
				require.Equal(t, tallies*test.pass+free, passed, "day %d: %d tallies of %d requests", day, tallies, test.pass)
			}
		})
	}
}
