// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// The threats that wait tickets bring. What bounds them all is the waiting room's tally.
func TestThreatsOfTheWaitingRoom(t *testing.T) {
	const instances = 3

	t.Run("T1 T5 gather tickets, drop the tally", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, waiting(now, middleware.Newcomers))
		var tickets []string
		for range 200 {
			tickets = append(tickets, refusedWithTicket(t, h))
			now.Advance(time.Millisecond)
		}
		now.Advance(5 * time.Second)
		passed := 0
		for _, ticket := range tickets {
			passed += admitted(h, 2, holding(ticket))
		}
		require.Equal(t, laneQuota, passed)
		require.Equal(t, 0, admitted(h, 2, holding(tickets[196:]...)))
	})
	t.Run("T2 replay a ticket, roll back its tally", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		next := waitCookieIn(t, send(h, holding(tickets[0])))
		require.Zero(t, admitted(h, 1000, holding(tickets[0])), "it is used up")
		require.Zero(t, admitted(h, 1000, holding(next)), "and the next opens later")
		now.Advance(5 * time.Second)
		require.Equal(t, 1, admitted(h, 1000, holding(next)))
		require.Equal(t, laneQuota-2, admittedWith(h, tickets[1:]))
		require.Zero(t, admitted(h, 1000, holding(tickets[0])))
	})
	t.Run("T4 in parallel", func(t *testing.T) {
		h, _, tickets := opened(t, middleware.Newcomers)
		inParallel(8, func(int) { admitted(h, 10, holding(tickets[0])) })
		require.EqualValues(t, 1, h.Spy.Calls.Load(), "one ticket")
		inParallel(8, func(int) { admittedWith(h, tickets) })
		require.EqualValues(t, laneQuota, h.Spy.Calls.Load())
	})
	t.Run("T3 T42 several instances, and cold starts", func(t *testing.T) {
		const cold = 2
		for name, mode := range allModes {
			t.Run(name, func(t *testing.T) {
				now := new(clock)
				cfg := waiting(now, mode)
				first := newSite(t, cfg)
				spendShared(t, first, mode)
				tickets := ticketsOf(t, first, 2*laneQuota)
				now.Advance(5 * time.Second)
				total := int64(0)
				sites := []*site{first}
				for len(sites) < instances+cold {
					sites = append(sites, newSite(t, cfg))
				}
				for _, s := range sites {
					admitted(s, 200)
					admittedWith(s, tickets)
					total += s.Spy.Calls.Load()
				}
				const n = instances + cold
				want := n * laneQuota
				if mode == middleware.WhenExhausted {
					want += n * 5 * laneQuota // that all have anyway
				}
				require.EqualValues(t, want, total, "(N+C) of the waiting room's quota, on top, and no less: what the bound says is true")
			})
		}
	})
	t.Run("EveryRequest, with S proofs", func(t *testing.T) {
		h, _, tickets := opened(t, middleware.EveryRequest)
		const proofs = 3
		for range proofs {
			proof := solved(t, fetched(h))
			require.Equal(t, http.StatusOK, send(h, proving(proof), holding(tickets[0])).StatusCode)
			require.False(t, h.Decisions.Last().FromWaitingRoom, "a proof that is good is used")
		}
		require.Equal(t, laneQuota, admittedWith(h, tickets))
		require.EqualValues(t, proofs+laneQuota, h.Spy.Calls.Load())
	})
	t.Run("T6 another address's", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		other := from("203.0.113.2")
		require.Zero(t, admittedWith(h, tickets, other))
		value := waitCookieIn(t, send(h, holding(tickets[0])))
		require.Zero(t, admitted(h, 10, holding(value), other))
		own := ticketsOf(t, h, 2*laneQuota, holding(value), other)
		require.NotContains(t, own, ticketOf(value))
		now.Advance(5 * time.Second)
		require.Equal(t, laneQuota, admittedWith(h, own, holding(value), other), "and it takes nothing from who shows it")
	})
	t.Run("T7 IPv6 networks", func(t *testing.T) {
		now := new(clock)
		cfg := waiting(now, middleware.Newcomers)
		cfg.Net56Factor, cfg.Net48Factor = 2, 3
		h := newSite(t, cfg)
		at := func(third, fourth int) option { return from(fmt.Sprintf("2001:db8:%x:%x::1", third, fourth)) }
		passed := func(third int, fourth ...int) (n int) {
			for _, f := range fourth {
				tickets := ticketsOf(t, h, 2*laneQuota, at(third, f))
				now.Advance(5 * time.Second)
				n += admittedWith(h, tickets, at(third, f))
			}
			return n
		}
		require.Equal(t, laneQuota, passed(1, 1))
		require.Equal(t, laneQuota, passed(1, 2))
		require.Zero(t, passed(1, 3), "a /56 has two")
		require.Equal(t, laneQuota, passed(1, 0x101, 0x201), "a /48 three")
		require.Equal(t, laneQuota, passed(2, 1))

		t.Run("are counted apart from the rest", func(t *testing.T) {
			cfg := waiting(now, middleware.WhenExhausted)
			cfg.Net56Factor, cfg.Net48Factor = 1, 1
			h := newSite(t, cfg)
			require.Equal(t, 5*laneQuota, admitted(h, 100, at(1, 1)))
			tickets := ticketsOf(t, h, 2*laneQuota, at(1, 1))
			now.Advance(5 * time.Second)
			require.Equal(t, laneQuota, admittedWith(h, tickets, at(1, 1)))
		})
	})
	t.Run("T9 T14 change any character, or the spelling", func(t *testing.T) {
		h, _, tickets := opened(t, middleware.Newcomers)
		ticket := tickets[0]
		forged := []string{"", "~", strings.Repeat("A", 44), ticket[:43], ticket + "A", ticket + "=", `"` + ticket + `"`, ticket[:20] + " " + ticket[20:]}
		for i := range ticket {
			for _, c := range "AZaz09-_" {
				if changed := ticket[:i] + string(c) + ticket[i+1:]; changed != ticket {
					forged = append(forged, changed)
				}
			}
		}
		for _, value := range forged {
			require.Equal(t, http.StatusForbidden, send(h, holding(value)).StatusCode, value)
		}
		require.Equal(t, http.StatusOK, send(h, holding(ticket)).StatusCode)
	})
	t.Run("T15 another policy's, another mode's, another kind", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		ticket := tickets[0]
		cfg := waiting(now, middleware.Newcomers)
		cfg.Policy = "other"
		other := newSite(t, cfg)
		require.Equal(t, http.StatusForbidden, send(other, with("Cookie", "__Host-tallystick-other.wait="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, with("Cookie", "__Host-tallystick-contact="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, with("Cookie", "__Host-tallystick-contact.proof.0badcafe="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, showing(ticket), proving(ticket)).StatusCode)
		own := bought(t, h)
		require.Equal(t, http.StatusForbidden, send(h, holding(own)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, holding(challengeIn(t, fetched(h)).Text)).StatusCode)
	})
	t.Run("T16 T46 clocks that differ, and step back", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		ticket := tickets[0]
		now.Advance(-time.Second)
		require.Equal(t, http.StatusForbidden, send(h, html, holding(ticket)).StatusCode)
		require.Equal(t, time.Second, h.Decisions.Last().RoomWait)
		now.Advance(-time.Hour)
		resp := send(h, html, holding(ticket))
		require.Equal(t, 5*time.Second, h.Decisions.Last().RoomWait, "a ticket of another time locks nobody out")
		now.Advance(5 * time.Second)
		require.Equal(t, 1, admitted(h, 10, holding(waitCookieIn(t, resp))))
	})
	t.Run("T18 T19 T20 huge, repeated and odd cookies", func(t *testing.T) {
		h, _, tickets := opened(t, middleware.Newcomers)
		junk := strings.Repeat("A", 44)
		require.Equal(t, http.StatusForbidden, send(h, holding(junk, junk, junk, junk, tickets[0])).StatusCode, "four are looked at")
		require.Equal(t, http.StatusOK, send(h, holding(junk, junk, junk, tickets[0])).StatusCode)
		require.Equal(t, http.StatusOK, send(h, holding(strings.Repeat("A", 4<<10), tickets[1]+"~"+strings.Repeat("A", 8<<10))).StatusCode)
		require.Equal(t, http.StatusOK, send(h, with("Cookie", strings.Repeat("x=y; ", 3000)+"__Host-tallystick-contact.wait="+tickets[2])).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, with("Cookie", strings.Repeat("x=y; ", 4000)+"__Host-tallystick-contact.wait="+tickets[3])).StatusCode)
		w, r := &sink{Fields: http.Header{}}, newRequest(holding(strings.Repeat("A", 600<<10)))
		require.Less(t, allocated(func() { h.ServeHTTP(w, r) }), uint64(64<<10))
	})
	t.Run("T22 plant a spent tally", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		attacker := from("198.51.100.1")
		var theirs string
		stock := ticketsOf(t, h, laneQuota, attacker)
		now.Advance(5 * time.Second)
		for _, ticket := range stock {
			theirs = waitCookieIn(t, send(h, holding(ticket), attacker))
		}
		_, spent, _ := strings.Cut(theirs, "~")
		require.NotEmpty(t, spent)
		passed := 0
		for _, ticket := range tickets {
			passed += admitted(h, 1, holding(theirs, ticket+"~"+spent))
		}
		require.Equal(t, laneQuota, passed)
	})
	t.Run("T31 the memory is full", func(t *testing.T) {
		now := new(clock)
		cfg := waiting(now, middleware.Newcomers)
		cfg.MaxClients = 1
		h := newSite(t, cfg)
		passed := 0
		const people = 500
		for i := range people {
			at := from(fmt.Sprintf("198.51.%d.%d", i/250, i%250))
			tickets := ticketsOf(t, h, 2*laneQuota, at)
			now.Advance(5 * time.Second)
			n := admittedWith(h, tickets, at)
			require.LessOrEqual(t, n, laneQuota, "nobody has more for that")
			passed += n
			now.Advance(-5 * time.Second)
		}
		require.Less(t, passed, people*laneQuota, "it was full")
		require.GreaterOrEqual(t, passed, 16*laneQuota)
	})
	t.Run("T43 the quota changes", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		require.Equal(t, laneQuota, admittedWith(h, tickets))
		cfg := waiting(now, middleware.Newcomers)
		cfg.Challenge.WaitingRoom = 2
		require.NoError(t, h.M.Reconfigure(cfg))
		require.Equal(t, laneQuota, admittedWith(h, tickets[:laneQuota]), "each lets in two now, and what it has let in stays counted")
		require.Zero(t, admittedWith(h, tickets[:laneQuota]))
		require.Equal(t, 10-2*laneQuota, admittedWith(h, tickets), "what was used stays used")
		cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true
		require.NoError(t, h.M.Reconfigure(cfg))
		now.Advance(time.Minute)
		require.Zero(t, admittedWith(h, tickets))
	})
	t.Run("T45 the answer does not say what is wrong with a ticket", func(t *testing.T) {
		h, now, tickets := opened(t, middleware.Newcomers)
		expired := tickets[0]
		now.Advance(time.Hour)
		used, fresh := refusedWithTicket(t, h), refusedWithTicket(t, h)
		now.Advance(5 * time.Second)
		require.Equal(t, http.StatusOK, send(h, holding(used)).StatusCode)
		forged := fresh[:43] + map[bool]string{true: "B", false: "A"}[fresh[43] == 'A']
		strange := refusedWithTicket(t, h, from("203.0.113.9"))
		answer := func(options ...option) string {
			resp := send(h, append(options, html)...)
			challenge, ticket := challengeIn(t, resp).Text, waitCookieIn(t, resp)
			require.NotEmpty(t, ticket)
			var b strings.Builder
			require.NoError(t, resp.Header.Write(&b))
			return strings.NewReplacer(challenge, "CHALLENGE", ticket, "TICKET").Replace(b.String() + bodyOf(t, resp))
		}
		absent := answer()
		for name, ticket := range map[string]string{"used up": used, "expired": expired, "forged": forged, "strange": strange, "garbage": "x"} {
			require.Equal(t, absent, answer(holding(ticket)), name)
		}
		require.NotContains(t, absent, "203.0.113")
	})
}
