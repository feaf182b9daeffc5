// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// The highest price of this minute and the one before is told, whatever other addresses are asked for, and the log says
// once a minute that it is more than people wait for.
func TestAHighPriceIsSeen(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Challenge.Crowd = 8
	h := newSite(t, cfg)
	highest := func() uint64 { return h.M.Stats().HighestWork }
	require.Zero(t, highest(), "nobody has asked")
	challengeIn(t, send(h, from("203.0.113.9")))
	require.EqualValues(t, 16, highest())

	h.M.SellOut(now.Now(), peerIdentity)
	require.Equal(t, middleware.SoldOut, reasonOf(t, h))
	require.EqualValues(t, 1<<32, highest(), "more than a challenge can ask for")
	require.Equal(t, []string{"price-high"}, codesIn(h.Log.Lines()))

	now.Advance(time.Hour)
	for range 70 { // seconds
		now.Advance(time.Second)
		challengeIn(t, send(h, from("203.0.113.9")))
		asked := challengeIn(t, send(h)).Work
		require.Greater(t, asked, uint64(1<<24))
		require.GreaterOrEqual(t, highest(), asked)
		require.LessOrEqual(t, highest(), asked+asked/8)
	}
	require.Equal(t, []string{"price-high", "price-high", "price-high"}, codesIn(h.Log.Lines()), "once a minute")
	now.Advance(2 * time.Minute)
	require.Zero(t, highest())

	now.Advance(90 * time.Minute)
	asked := challengeIn(t, send(h)).Work
	require.Less(t, asked, uint64(1<<24))
	require.Equal(t, asked, highest())
	require.Len(t, h.Log.Lines(), 3)
}

// reasonOf returns why a request is refused.
func reasonOf(t *testing.T, h *site) middleware.Reason {
	require.NotEqual(t, http.StatusOK, send(h).StatusCode)
	return h.Decisions.Last().Reason
}

// What the owner asks of everybody, and what nobody was sent, is no news.
func TestAPriceThatIsMeantIsNoNews(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.Work = 1 << 25
	h := newSite(t, cfg)
	challengeIn(t, send(h))
	require.EqualValues(t, 1<<25, h.M.Stats().HighestWork)

	h.M.SellOut(midnight, visitor)
	peeked(t, h.M, visitor)
	require.EqualValues(t, 1<<25, h.M.Stats().HighestWork)
	require.Empty(t, h.Log.Lines())
}

// Of requests at once the highest is kept.
func TestTheHighestPriceOfMany(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	h := newSite(t, cfg)
	h.M.SellOut(now.Now(), peerIdentity)
	kit.Together(50, func(i int) {
		if i == 25 {
			send(h)
			return
		}
		send(h, stranger(i))
	})
	require.EqualValues(t, 1<<32, h.M.Stats().HighestWork)
}
