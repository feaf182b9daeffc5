// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
	pages "github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/storeless"
)

func TestTickets(t *testing.T) {
	peek, dear := costing(0), costing(laneQuota+1)
	waits := func(wait time.Duration) func(*scene) {
		return func(s *scene) { require.Equal(s, wait, s.decision().RoomWait) }
	}
	tally := func(shown bool) func(*scene) { // beside the ticket
		return func(s *scene) { require.Equal(s, shown, len(waitCookieIn(s, s.last)) > 44) }
	}
	scenarios := []scenario{
		// The one that takes its place opens after a wait of its own.
		{"a ticket ends", roomed(middleware.Newcomers, costly), []step{
			{as: html, want: 403, keep: "1"}, {after: 5*time.Second + 10*time.Minute - time.Millisecond, as: peek, hold: "1", want: 200},
			{after: time.Millisecond, as: html, hold: "1", want: 403, keep: "2", see: all{func(s *scene) { require.NotEqual(s, s.tickets["1"], s.tickets["2"]) }}},
			{hold: "2", want: 403}, {after: 5 * time.Second, as: peek, hold: "1 2", want: 200}, // the one that is good counts
			{after: time.Second, as: html, want: 403, keep: "3"}, {as: peek, hold: "3 2", want: 200}, // whatever the order
			{hold: "2 3", want: 200}, {hold: "2 3", want: 403}, {after: 5 * time.Second, hold: "2 3", want: 200}, // one that is used up is none
		}},
		// A ticket is not offered for what costs more than the room ever has, nor does holding one change that refusal.
		{"costs count", roomed(middleware.Newcomers, costly), []step{
			{as: both(html, dear), want: 403, fields: fields{"Set-Cookie": ""}, see: all{waits(0)}},
			{as: both(html, costing(laneQuota)), want: 403, keep: "1"}, {as: html, want: 403, keep: "2"},
			{after: 5 * time.Second, as: dear, hold: "1", want: 403, reason: middleware.NoToken}, {as: peek, hold: "1", want: 200},
			{as: costing(3), hold: "1", want: 200}, {as: costing(1), hold: "1", want: 403}, // the first is of any cost
			{as: costing(2), hold: "2", want: 403}, {as: costing(1), hold: "2", want: 200}, // the room has less, and a refusal uses nothing up
		}},
		{"a quiet policy does not repeat the tally that it sent before", roomed(middleware.EveryRequest), []step{
			{as: html, want: 403, keep: "1"}, {after: 5 * time.Second, as: html, hold: "1", want: 200, keep: "2", see: all{tally(true)}},
			{as: html, hold: "2", want: 403, see: all{tally(true)}},
			{do: becomes(quietly, func(cfg *middleware.Config) { cfg.TokenTransport = middleware.MemoryOnly }), as: html, hold: "2", want: 403, see: all{tally(false), func(s *scene) {
				require.Equal(s, ticketOf(s.tickets["2"]), waitCookieIn(s, s.last))
			}}},
		}},
	}
	for name, mode := range allModes {
		scenarios = append(scenarios, scenario{"an admitted page gets none/" + name, roomed(mode), []step{
			{as: html, prove: fresh, want: 200, see: all{waits(0), func(s *scene) { require.Empty(s, waitCookieIn(s, s.last)) }}},
		}})
	}
	play(t, scenarios)
}

// A person without JavaScript is refused a page, waits, and sends again.
func TestWaitingRoom(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			h := newSite(t, waiting(now, mode))
			spendShared(t, h, mode)
			h.Spy.Calls.Store(0)

			refused := send(h, html)
			without := send(h)
			require.Equal(t, without.StatusCode, refused.StatusCode, "the status is that of a program's refusal")
			require.Equal(t, without.Header.Get("Retry-After") == "", refused.Header.Get("Retry-After") == "")
			require.Empty(t, waitCookieIn(t, without), "programs can work")
			if mode != middleware.WhenExhausted { // there it is 429
				require.Equal(t, http.StatusForbidden, refused.StatusCode)
				challengeIn(t, refused)
			}
			ticket := waitCookieIn(t, refused)
			require.Len(t, ticket, 44)

			now.Advance(5*time.Second - time.Millisecond)
			early := requireStatus(t, refused.StatusCode, send(h, html, holding(ticket)))
			require.Equal(t, time.Second, h.Decisions.Last().RoomWait)
			require.Equal(t, ticket, waitCookieIn(t, early), "the wait does not begin anew")

			now.Advance(time.Millisecond)
			resp := requireStatus(t, http.StatusOK, send(h, html, holding(ticket)))
			d := h.Decisions.Last()
			require.True(t, d.FromWaitingRoom)
			require.Len(t, d.Pseudonym(), 16)
			require.False(t, d.Own)
			require.Equal(t, middleware.WithinLimits, d.Reason)
			require.Zero(t, d.RoomWait)
			require.Equal(t, `"contact";q=4;w=60`, resp.Header.Get("RateLimit-Policy"), "it has the quotas of the waiting room")
			require.Equal(t, `"contact";r=3;t=55`, resp.Header.Get("RateLimit"))
			require.EqualValues(t, laneQuota, d.Limits()[0].Quota)
			require.Empty(t, tokenIn(resp), "its tally is in the cookie of the ticket")
			value := waitCookieIn(t, resp)
			require.NotEqual(t, ticket, ticketOf(value), "what a ticket lets in brings the next one")
			require.Greater(t, len(value), 44)
			require.Zero(t, admitted(h, 50, holding(ticket)), "it is used up")
			require.Zero(t, admitted(h, 50, holding(value)), "and the next is not yet open")
			for range laneQuota - 1 {
				now.Advance(5 * time.Second)
				resp = requireStatus(t, http.StatusOK, send(h, html, holding(value)), "but opens after the wait of any first")
				value = waitCookieIn(t, resp)
			}
			require.EqualValues(t, laneQuota, h.Spy.Calls.Load())
			full := requireStatus(t, refused.StatusCode, send(h, html, holding(value)))
			require.False(t, h.Decisions.Last().FromWaitingRoom)
			wait := h.Decisions.Last().RoomWait
			const opens = 40 * time.Second // what is left of the minute
			require.GreaterOrEqual(t, wait, opens, "until the waiting room has room")
			require.LessOrEqual(t, wait, 2*opens, "and a random while")
			require.Equal(t, ticketOf(value), ticketOf(waitCookieIn(t, full)), "it came with the answer")
			now.Advance(wait)
			require.Equal(t, http.StatusOK, send(h, holding(value)).StatusCode, "and that was true")
		})
	}
}

// Where the waiting room is full for longer than a ticket lives, the ticket opens when the room does.
func TestTicketForAFullRoom(t *testing.T) {
	now := new(clock)
	cfg := waiting(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{fixed(5, 24*time.Hour)}
	h := newSite(t, cfg)
	first := refusedWithTicket(t, h)
	now.Advance(5 * time.Second)
	passed := send(h, holding(first))
	value := waitCookieIn(t, passed)
	require.Equal(t, 2*86_400-5, passed.Cookies()[0].MaxAge, "the tally outlives the ticket")

	full := send(h, html, holding(value))
	ticket, wait := waitCookieIn(t, full), h.Decisions.Last().RoomWait
	require.NotEqual(t, first, ticketOf(ticket))
	require.GreaterOrEqual(t, wait, 24*time.Hour-5*time.Second)
	require.Greater(t, full.Cookies()[0].MaxAge, int(wait/time.Second), "ticket and tally are kept until then")
	require.NotContains(t, bodyOf(t, send(h, html, method("GET"), holding(value))), "refresh", "no visitor looks at a page for a day")
	waits := map[time.Duration]bool{}
	for range 20 {
		send(h, html)
		waits[h.Decisions.Last().RoomWait] = true
	}
	require.Greater(t, len(waits), 1, "clients that share the waiting room do not return together")
	require.Contains(t, bodyOf(t, full), " hours.</p>")
	require.Empty(t, full.Header.Get("Retry-After"), "a program does not wait")
	now.Advance(wait - time.Second)
	require.Equal(t, http.StatusForbidden, send(h, holding(ticket)).StatusCode)
	now.Advance(time.Second)
	require.Equal(t, http.StatusOK, send(h, holding(ticket)).StatusCode)

	t.Run("and opens sooner if that does", func(t *testing.T) {
		late := refusedWithTicket(t, h)
		cfg.Limits[0].Quota = 50
		require.NoError(t, h.M.Reconfigure(cfg))
		resp := send(h, html, holding(late))
		require.Contains(t, bodyOf(t, resp), "Try again in 5 seconds.")
		now.Advance(5 * time.Second)
		require.Equal(t, http.StatusForbidden, send(h, holding(late)).StatusCode)
		require.Equal(t, http.StatusOK, send(h, holding(waitCookieIn(t, resp))).StatusCode)
	})
}

// A ticket founds nothing and changes no price: work buys what it buys without.
func TestWaitingRoomAndWorkDoNotMeet(t *testing.T) {
	h, now, tickets := handlers.Opened(t, middleware.Newcomers)
	ticket := tickets[0]
	require.Equal(t, laneQuota, admittedWith(h, tickets))

	require.EqualValues(t, 16, challengeIn(t, fetched(h, holding(ticket))).Work)
	own := bought(t, h, holding(ticket))
	require.Equal(t, 5*laneQuota, admitted(h, 5*laneQuota, showing(own), holding(ticket)), "its own comes first")
	require.Zero(t, admitted(h, 5, showing(own), holding(ticket)))
	require.EqualValues(t, 24, challengeIn(t, fetched(h)).Work, "one has been sold, not two")

	t.Run("own before room", func(t *testing.T) {
		now.Advance(time.Minute)
		ticket = tickets[laneQuota]
		resp := requireStatus(t, http.StatusOK, send(h, showing(own), holding(ticket)))
		require.True(t, h.Decisions.Last().Own)
		require.False(t, h.Decisions.Last().FromWaitingRoom)
		require.Empty(t, waitCookieIn(t, resp))
	})
	t.Run("room after own, whose token is kept", func(t *testing.T) {
		admitted(h, 5*laneQuota, showing(own))
		resp := requireStatus(t, http.StatusOK, send(h, showingCookie(own), holding(ticket)))
		require.True(t, h.Decisions.Last().FromWaitingRoom)
		require.Len(t, resp.Cookies(), 1, "the waiting room's alone")
		require.NotEmpty(t, waitCookieIn(t, resp))
	})
}

// A quiet policy shows nothing of the waiting room's counts either.
func TestQuietWaitingRoom(t *testing.T) {
	h, _, tickets := handlers.Opened(t, middleware.EveryRequest, func(cfg *middleware.Config) { cfg.Quiet, cfg.TokenTransport = true, middleware.MemoryOnly })
	resp := requireStatus(t, http.StatusOK, send(h, holding(tickets[0])))
	require.Empty(t, resp.Header.Get("RateLimit"))
	require.Empty(t, resp.Cookies())
	require.Equal(t, laneQuota-1, admittedWith(h, tickets))
	require.Len(t, refusedWithTicket(t, h, holding(tickets[0])), 44, "no tally beside it")
}

// The tally beside the ticket counts on other instances, and after a rotation.
func TestWaitingRoomTokens(t *testing.T) {
	now := new(clock)
	cfg := waiting(now, middleware.Newcomers)
	a, b := newSite(t, cfg), newSite(t, cfg)
	tickets := ticketsOf(t, a, 2*laneQuota)
	now.Advance(5 * time.Second)
	_, tally, _ := strings.Cut(waitCookieIn(t, send(a, holding(tickets[0]))), "~")
	_, tally, _ = strings.Cut(waitCookieIn(t, send(b, holding(tickets[1]+"~"+tally))), "~")
	_, tally, _ = strings.Cut(waitCookieIn(t, send(a, holding(tickets[2]+"~"+tally))), "~")
	beside := func(tally string) (values []string) {
		for _, ticket := range tickets {
			values = append(values, ticket+"~"+tally)
		}
		return values
	}
	require.Equal(t, 1, admittedWith(b, beside(tally)), "one after the other: the quota, on any number of instances")

	rotated := cfg
	rotated.Secrets = [][]byte{secret("new"), secret("a")}
	c := newSite(t, rotated)
	require.Equal(t, 1, admittedWith(c, beside(tally)))
	require.Equal(t, laneQuota, admittedWith(newSite(t, rotated), tickets), "without it, (N+C)·quota")

	t.Run("a token of another tally says nothing of the waiting room", func(t *testing.T) {
		h := newSite(t, cfg)
		own := spend(t, h, 15, proving(solved(t, fetched(h))))
		cfg := cfg
		cfg.Challenge = nil
		shared := spend(t, newSite(t, cfg), 15)
		passed := 0
		for _, ticket := range tickets {
			passed += admitted(h, 1, holding(ticket+"~"+own, ticket+"~"+shared, ticket+"~", ticket+"~~"))
		}
		require.Equal(t, laneQuota, passed)
		require.Equal(t, http.StatusForbidden, send(h, showing(tally), showingCookie(tally)).StatusCode, "nor the waiting room's of any other")
		require.Zero(t, h.Decisions.Last().Tokens)
	})
}

// A waiting room of its own for each policy of a stack.
func TestStackedWaitingRooms(t *testing.T) {
	now := new(clock)
	outer, inner := waiting(now, middleware.Newcomers), waiting(now, middleware.Newcomers)
	inner.Policy = "inner"
	s := new(spy)
	h := newLimiter(t, outer).Handler(newLimiter(t, inner).Handler(s))
	jar := map[string]string{}
	carried := func(r *http.Request) {
		for name, value := range jar {
			r.Header.Add("Cookie", name+"="+value)
		}
	}
	for range 2 {
		resp := requireStatus(t, http.StatusForbidden, send(h, html, carried))
		for _, c := range resp.Cookies() {
			jar[c.Name] = c.Value
		}
		now.Advance(5 * time.Second)
	}
	require.Len(t, jar, 2)
	resp := requireStatus(t, http.StatusOK, send(h, carried))
	require.Len(t, resp.Cookies(), 2)
	require.Equal(t, []string{`"contact";q=4;w=60`, `"inner";q=4;w=60`}, resp.Header.Values("RateLimit-Policy"))
}

// The built-in page; nothing inline in it needs leave of a content policy.
func TestWaitPage(t *testing.T) {
	h := newSite(t, waiting(new(clock), middleware.Newcomers))
	page := bodyOf(t, send(h, html))
	require.Contains(t, page, "Please go back and send it again. Your browser has kept what you have written. Try again in 5 seconds.")
	require.NotContains(t, page, "refresh", "what was posted would be lost")

	for _, m := range []string{http.MethodGet, http.MethodHead} {
		page = bodyOf(t, send(h, html, method(m), path("/a?b=<c>")))
		require.Contains(t, page, `<noscript><meta http-equiv="refresh" content="5"></noscript>`)
		require.Contains(t, page, `<a href="">`)
		require.NotContains(t, page, "b=", "the page names no URL")
	}
	for _, never := range []string{"<script>", "<style", "style=", "onclick", "javascript:"} {
		require.NotContains(t, page, never)
	}
}

// A GET with a response that shared caches may store carries no ticket and no tally.
func TestWaitingRoomAndSharedCaches(t *testing.T) {
	now := new(clock)
	h := newSite(t, waiting(now, middleware.Newcomers))
	h.Spy.Serve = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "public, max-age=60") }
	tickets := ticketsOf(t, h, 2*laneQuota, method("GET"))
	now.Advance(5 * time.Second)
	resp := requireStatus(t, http.StatusOK, send(h, method("GET"), holding(tickets[0])))
	require.Empty(t, resp.Cookies())
	require.Equal(t, laneQuota-1, admittedWith(h, tickets, method("GET")), "the memory counts")
}

// The highest of several tallies of the room counts, in whatever order they are shown.
func TestSeveralTalliesOfARoom(t *testing.T) {
	h, now, tickets := handlers.Opened(t, middleware.Newcomers)
	low := waitCookieIn(t, send(h, holding(tickets[0])))
	high := waitCookieIn(t, send(h, holding(tickets[1])))
	for _, shown := range []option{holding(low, high), holding(high, low)} {
		require.Equal(t, laneQuota-2, admittedWith(newSite(t, waiting(now, middleware.Newcomers)), tickets, shown), "on an instance that remembers neither")
	}
}

// Where the room is full, tickets open at random times after it has space again: no client can know
// that one of them is the first. Asking again with one does not change it.
func TestTicketsOfAFullRoomOpenAtRandom(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	now := new(clock)
	h := newSite(t, waiting(now, middleware.Newcomers))
	tickets := ticketsOf(t, h, laneQuota)
	now.Advance(5 * time.Second)
	require.Equal(t, laneQuota, admittedWith(h, tickets))
	const space = 55 * time.Second // until the minute ends
	waits, minutes := map[time.Duration]bool{}, [2]int{}
	for range 200 {
		ticket := refusedWithTicket(t, h)
		wait := h.Decisions.Last().RoomWait
		require.GreaterOrEqual(t, wait, space)
		require.LessOrEqual(t, wait, 2*space)
		waits[wait] = true
		minutes[(wait-space)/(space/2+time.Second)]++
		for range 3 {
			require.Equal(t, ticket, refusedWithTicket(t, h, holding(ticket)))
			require.Equal(t, wait, h.Decisions.Last().RoomWait)
		}
	}
	require.Greater(t, len(waits), 40)
	require.InDelta(t, minutes[0], minutes[1], 40, "early and late are as likely")
}

// A ticket lets in a quarter of what the room has: a page and what belongs to it, and not all of the room.
func TestTicketsOfALargeRoom(t *testing.T) {
	now := new(clock)
	cfg := waiting(now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{fixed(5*40, time.Minute)}
	h := newSite(t, cfg)
	tickets := ticketsOf(t, h, 5)
	now.Advance(5 * time.Second)
	value := waitCookieIn(t, send(h, holding(tickets[0])))
	require.Equal(t, tickets[0], ticketOf(value), "it is good again")
	require.Equal(t, 9, admitted(h, 50, holding(value)))
	for i, want := range []int{0, 10, 10, 10, 0} {
		require.Equal(t, want, admitted(h, 50, holding(tickets[i])), i)
	}
}

// The waiting room is on by default where tallies are sold, and off in EveryRequest:
// there even a fifth without work is more than the owner asked for.
func TestWhereTheWaitingRoomIs(t *testing.T) {
	spent := func(s *scene) { admitted(s.site, 20) }
	where := func(name string, offered bool, of setup) scenario {
		return scenario{name, of, []step{{do: spent, as: html, times: 1, see: all{func(s *scene) {
			require.GreaterOrEqual(s, s.last.StatusCode, 400)
			require.Equal(s, []bool{offered, offered}, []bool{waitCookieIn(s, s.last) != "", s.decision().RoomWait > 0})
		}}}}}
	}
	headerOnly := func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly }
	three := func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom = 3 }
	scenarios := []scenario{
		where("no challenge", false, limiting()),
		where("nothing would count it", false, working(middleware.Newcomers, headerOnly, func(cfg *middleware.Config) { cfg.InsecureNoMemory = true })),
	}
	for name, mode := range allModes {
		scenarios = append(scenarios, where(name, mode != middleware.EveryRequest, working(mode)),
			where(name+", NoWaitingRoom", false, working(mode, func(cfg *middleware.Config) { cfg.Challenge.NoWaitingRoom = true })),
			where(name+", no cookie", false, working(mode, headerOnly)), where(name+", one in three", true, working(mode, three)),
			scenario{name + ", in shadow mode it is withheld with the refusal", working(mode, three, func(cfg *middleware.Config) { cfg.Shadow = true }), []step{
				{do: spent, as: html, want: 200, see: all{func(s *scene) {
					require.Empty(s, waitCookieIn(s, s.last))
					require.False(s, s.decision().Admitted)
					require.Zero(s, s.decision().RoomWait)
				}}},
			}})
	}
	play(t, scenarios)
}

func TestBadWaitShares(t *testing.T) {
	requireMistakes(t, func(c *clock) middleware.Config { return challenging(c, middleware.Newcomers) }, []mistake{
		{"Challenge.WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom = -1 }, "one in 1 to 2147483647"},
		{"Challenge.WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom = 1 << 31 }, "one in 1 to 2147483647"},
		{"Challenge.NoWaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 5, true }, ""},
		{"Challenge.WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom, cfg.TokenTransport = 5, middleware.HeaderOnly }, ""},
		{"Challenge.WaitingRoom", func(cfg *middleware.Config) { cfg.Challenge.WaitingRoom, cfg.InsecureNoMemory = 5, true }, ""},
	})
}

// Every limit of every tier has its share, at least 1, in quota and burst.
func TestQuotasOfTheWaitingRoom(t *testing.T) {
	limits := func(quota int64) []middleware.Limit {
		return []middleware.Limit{
			{Name: "s", Quota: quota, Window: time.Minute},
			{Name: "f", Algorithm: middleware.FixedWindow, Quota: 10 * quota, Window: time.Hour},
			{Name: "t", Algorithm: middleware.TokenBucket, Quota: 3 * quota, Window: time.Hour, Burst: 2 * quota},
			{Name: "l", Algorithm: storeless.LeakyBucket, Quota: 2 * quota, Window: time.Second},
		}
	}
	for _, test := range []struct {
		share, quota, tier int64
		want               string
		wantTier           string
	}{
		{0, 11, 50, `"s";q=2;w=60, "f";q=22;w=3600, "t";q=4;w=2400, "l";q=1;w=1`, `"s";q=10;w=60, "f";q=100;w=3600, "t";q=20;w=2400, "l";q=1;w=1`},
		{1, 3, 7, `"s";q=3;w=60, "f";q=30;w=3600, "t";q=6;w=2400, "l";q=1;w=1`, `"s";q=7;w=60, "f";q=70;w=3600, "t";q=14;w=2400, "l";q=1;w=1`},
		{1 << 20, 3, 7, `"s";q=1;w=60, "f";q=1;w=3600, "t";q=1;w=3600, "l";q=1;w=1`, `"s";q=1;w=60, "f";q=1;w=3600, "t";q=1;w=3600, "l";q=1;w=1`},
	} {
		now := new(clock)
		cfg := challenging(now, middleware.Newcomers)
		cfg.Limits, cfg.Challenge.WaitingRoom = limits(test.quota), test.share
		cfg.Tiers = map[string][]middleware.Limit{"pro": limits(test.tier)}
		cfg.Identity = byTier(only(middleware.APIKey("somebody")))
		h := newSite(t, cfg)
		ticket := refusedWithTicket(t, h)
		now.Advance(5 * time.Second)
		resp := requireStatus(t, http.StatusOK, send(h, holding(ticket), with("Tier", "pro")))
		require.Equal(t, test.wantTier, resp.Header.Get("RateLimit-Policy"))
		require.Equal(t, "pro", h.Decisions.Last().Tier)
		now.Advance(48 * time.Hour)
		ticket = refusedWithTicket(t, h)
		now.Advance(5 * time.Second)
		require.Equal(t, test.want, send(h, holding(ticket)).Header.Get("RateLimit-Policy"))
	}
	t.Run("a bucket that would take longer than a year to empty", func(t *testing.T) {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Limits = []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 9, Window: 24 * time.Hour, Burst: 366 * 9}}
		newSite(t, cfg)
	})
}

// Development over plain HTTP, and pages in other sites' frames.
func TestWaitCookieAttributes(t *testing.T) {
	cfg := waiting(new(clock), middleware.Newcomers)
	cfg.InsecureCookie = true
	line := send(newSite(t, cfg), html).Header.Get("Set-Cookie")
	require.Regexp(t, `^tallystick-contact\.wait=[\w-]{44}; Max-Age=605; Path=/; HttpOnly; SameSite=Lax$`, line)
	cfg.InsecureCookie, cfg.EmbeddedCookie = false, true
	line = send(newSite(t, cfg), html).Header.Get("Set-Cookie")
	require.Regexp(t, `^__Host-tallystick-contact\.wait=[\w-]{44}; Max-Age=605; Path=/; HttpOnly; Secure; SameSite=None; Partitioned$`, line)
}

var update = flag.Bool("update", false, "rewrite the table of the waiting room in proof/lab/price/README.md")

const (
	roomPage  = "../proof/lab/price/README.md"
	roomBegin = "<!-- generated by: go test ./middleware -run TestWaitingRoomTable -update -->"
	roomEnd   = "<!-- end of what is generated -->"
)

// A waiter holds a ticket, and comes when it has been told to.
type waiter struct {
	cookie string
	due    time.Duration // when it comes next
	gives  time.Duration // when it gives up
}

// A lobby is people without JavaScript, and a script that wants all of the waiting room, behind one address.
type lobby struct {
	handler http.Handler
	now     *clock
	told    time.Duration // the RoomWait of the last decision
	arrive  *rand.Rand
	press   *rand.Rand
	people  []waiter
	script  []waiter

	came, served, taken int
}

func newLobby(t *testing.T, limit middleware.Limit, tickets int) *lobby {
	q := &lobby{now: new(clock), arrive: random(1), press: random(3), script: make([]waiter, tickets)}
	cfg := waiting(q.now, middleware.Newcomers)
	cfg.Limits = []middleware.Limit{limit}
	cfg.OnDecision = func(_ context.Context, d middleware.Decision) { q.told = d.RoomWait }
	q.handler, _ = limited(t, cfg)
	return q
}

// ask sends a form as a browser does, and reports whether it was served.
func (q *lobby) ask(t *testing.T, at time.Duration, w *waiter) bool {
	q.now.Offset.Store(int64(at))
	resp := send(q.handler, html, holding(w.cookie))
	if cookie := waitCookieIn(t, resp); cookie != "" {
		w.cookie = cookie
	}
	w.due = at + q.told
	return resp.StatusCode == http.StatusOK
}

// rush lets the script take what it can. It comes on the second, before any other client, with one open ticket after
// the other until the room is full, and draws a new one for each that it has used.
func (q *lobby) rush(t *testing.T, at time.Duration) {
	for i := range q.script {
		w := &q.script[i]
		if w.due > at {
			continue
		}
		held := ticketOf(w.cookie)
		switch {
		case q.ask(t, at, w):
			q.taken++
			if q.ask(t, at, w) { // to hear when the next one opens
				q.taken++
				w.due = at + time.Second
			}
		case ticketOf(w.cookie) == held: // it is open: the room is full, for the others too
			for j := range q.script {
				q.script[j].due = max(q.script[j].due, w.due)
			}
			return
		}
	}
}

// play has one come every so often, at random. People press the button up to
// ten seconds after they have been told to, and give up after half an hour.
func (q *lobby) play(t *testing.T, every, length time.Duration) {
	next := time.Duration(0)
	for at := time.Duration(0); at < length; at += time.Second {
		q.rush(t, at)
		for ; next <= at; next += time.Second + time.Duration(q.arrive.Int64N(int64(2*every))) {
			q.came++
			q.people = append(q.people, waiter{due: at, gives: at + 30*time.Minute})
		}
		q.people = slices.DeleteFunc(q.people, func(w waiter) bool { return w.gives < at })
		for i := 0; i < len(q.people); i++ {
			w := &q.people[i]
			if w.due > at {
				continue
			}
			if q.ask(t, at, w) {
				q.served++
				q.people = slices.Delete(q.people, i, i+1)
				i--
				continue
			}
			w.due += time.Duration(1+q.press.Int64N(10)) * time.Second
		}
	}
}

// TestWaitingRoomTable prints who gets in where a script competes with people for the
// waiting room of one address. One ticket must not be worth more than another.
func TestWaitingRoomTable(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	var b bytes.Buffer
	b.WriteString("| limit; of it the room has | tickets of the script | people | of them let in | let in of the script |\n|---|--:|--:|--:|--:|\n")
	for _, room := range []struct {
		text          string
		limit         middleware.Limit
		every, length time.Duration
	}{
		{"5 in 10 min; 1", middleware.Limit{Quota: 5, Window: 10 * time.Minute}, 20 * time.Minute, 12 * time.Hour},
		{"20 a minute; 4", middleware.Limit{Quota: 20, Window: time.Minute}, time.Minute, 3 * time.Hour},
		{"50 an hour; 10", middleware.Limit{Quota: 50, Window: time.Hour}, 10 * time.Minute, 6 * time.Hour},
	} {
		for _, tickets := range []int{0, 1, 10, 1000} {
			if kit.Brief() && !*update && tickets != 1 {
				continue
			}
			q := newLobby(t, room.limit, tickets)
			q.play(t, room.every, room.length)
			fmt.Fprintf(&b, "| %s | %d | %d | %d %% | %d |\n", room.text, tickets, q.came, 100*q.served/q.came, q.taken)
			if tickets == 1 {
				require.Greater(t, 100*q.served/q.came, 25, "%s: one ticket is worth no more than another", room.text)
			}
		}
	}
	t.Log("\n" + b.String())

	page := kit.Must(os.ReadFile(roomPage))(t)
	from, to, err := pages.Between(page, roomBegin, roomEnd)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(roomPage, slices.Concat(page[:from], b.Bytes(), page[to:]), 0o644))
		return
	}
	for line := range strings.Lines(b.String()) {
		require.True(t, roomRowIn(t, string(page[from:to]), line), "the table is old: %s\n%s", roomBegin, line)
	}
}

// roomRowIn reports whether a table has a row like line. Tickets draw from crypto/rand, and another Go release may
// change its stream for a seed: numbers that the draws decide may differ by as much as another seed would make them.
func roomRowIn(t *testing.T, table, line string) bool {
	const row = `(?m)^\| (.*) \| (\d+) \| (\d+) \| (\d+) % \| (\d+) \|$`
	want := regexp.MustCompile(row).FindStringSubmatch(line)
	if want == nil {
		return strings.Contains(table, line) // the head
	}
	number := func(s string) int {
		return kit.Must(strconv.Atoi(s))(t)
	}
	for _, got := range regexp.MustCompile(row).FindAllStringSubmatch(table, -1) {
		if slices.Equal(got[1:4], want[1:4]) {
			people, script := number(got[4])-number(want[4]), number(got[5])-number(want[5])
			return people*people <= 25*25 && script*script <= max(10*10, number(want[5])*number(want[5])/25)
		}
	}
	return false
}
