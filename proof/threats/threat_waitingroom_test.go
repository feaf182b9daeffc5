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
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
)

// The threats that wait tickets bring. What bounds them all is the waiting room's tally.
func TestThreatsOfTheWaitingRoom(t *testing.T) {
	const instances = 3

	t.Run("T1 T5 gather tickets, drop the tally", func(t *testing.T) {
		now := new(handlers.Clock)
		h := handlers.NewSite(t, handlers.Waiting(now, middleware.Newcomers))
		var tickets []string
		for range 200 {
			tickets = append(tickets, handlers.RefusedWithTicket(t, h))
			now.Advance(time.Millisecond)
		}
		now.Advance(5 * time.Second)
		passed := 0
		for _, ticket := range tickets {
			passed += handlers.Admitted(h, 2, handlers.Holding(ticket))
		}
		require.Equal(t, handlers.LaneQuota, passed)
		require.Equal(t, 0, handlers.Admitted(h, 2, handlers.Holding(tickets[196:]...)))
	})
	t.Run("T2 replay a ticket, roll back its tally", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		next := handlers.WaitCookieIn(t, handlers.Send(h, handlers.Holding(tickets[0])))
		require.Zero(t, handlers.Admitted(h, 1000, handlers.Holding(tickets[0])), "it is used up")
		require.Zero(t, handlers.Admitted(h, 1000, handlers.Holding(next)), "and the next opens later")
		now.Advance(5 * time.Second)
		require.Equal(t, 1, handlers.Admitted(h, 1000, handlers.Holding(next)))
		require.Equal(t, handlers.LaneQuota-2, handlers.AdmittedWith(h, tickets[1:]))
		require.Zero(t, handlers.Admitted(h, 1000, handlers.Holding(tickets[0])))
	})
	t.Run("T4 in parallel", func(t *testing.T) {
		h, _, tickets := handlers.Opened(t, middleware.Newcomers)
		kit.Together(8, func(int) { handlers.Admitted(h, 10, handlers.Holding(tickets[0])) })
		require.EqualValues(t, 1, h.Spy.Calls.Load(), "one ticket")
		kit.Together(8, func(int) { handlers.AdmittedWith(h, tickets) })
		require.EqualValues(t, handlers.LaneQuota, h.Spy.Calls.Load())
	})
	t.Run("T3 T42 several instances, and cold starts", func(t *testing.T) {
		const cold = 2
		for name, mode := range handlers.AllModes {
			t.Run(name, func(t *testing.T) {
				now := new(handlers.Clock)
				cfg := handlers.Waiting(now, mode)
				first := handlers.NewSite(t, cfg)
				handlers.Admitted(first, 5*handlers.LaneQuota+1) // all that WhenExhausted gives without work
				tickets := handlers.TicketsOf(t, first, 2*handlers.LaneQuota)
				now.Advance(5 * time.Second)
				total := int64(0)
				sites := []*handlers.Site{first}
				for len(sites) < instances+cold {
					sites = append(sites, handlers.NewSite(t, cfg))
				}
				for _, s := range sites {
					handlers.Admitted(s, 200)
					handlers.AdmittedWith(s, tickets)
					total += s.Spy.Calls.Load()
				}
				const n = instances + cold
				want := n * handlers.LaneQuota
				if mode == middleware.WhenExhausted {
					want += n * 5 * handlers.LaneQuota // that all have anyway
				}
				require.EqualValues(t, want, total, "(N+C) of the waiting room's quota, on top, and no less: what the bound says is true")
			})
		}
	})
	t.Run("EveryRequest, with S proofs", func(t *testing.T) {
		h, _, tickets := handlers.Opened(t, middleware.EveryRequest)
		const proofs = 3
		for range proofs {
			proof := handlers.Solved(t, handlers.Fetched(h))
			require.Equal(t, http.StatusOK, handlers.Send(h, handlers.Proving(proof), handlers.Holding(tickets[0])).StatusCode)
			require.False(t, h.Decisions.Last().FromWaitingRoom, "a proof that is good is used")
		}
		require.Equal(t, handlers.LaneQuota, handlers.AdmittedWith(h, tickets))
		require.EqualValues(t, proofs+handlers.LaneQuota, h.Spy.Calls.Load())
	})
	t.Run("T6 another address's", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		other := handlers.From("203.0.113.2")
		require.Zero(t, handlers.AdmittedWith(h, tickets, other))
		value := handlers.WaitCookieIn(t, handlers.Send(h, handlers.Holding(tickets[0])))
		require.Zero(t, handlers.Admitted(h, 10, handlers.Holding(value), other))
		own := handlers.TicketsOf(t, h, 2*handlers.LaneQuota, handlers.Holding(value), other)
		ticket, _, _ := strings.Cut(value, "~")
		require.NotContains(t, own, ticket)
		now.Advance(5 * time.Second)
		require.Equal(t, handlers.LaneQuota, handlers.AdmittedWith(h, own, handlers.Holding(value), other), "and it takes nothing from who shows it")
	})
	t.Run("T7 IPv6 networks", func(t *testing.T) {
		now := new(handlers.Clock)
		cfg := handlers.Waiting(now, middleware.Newcomers)
		cfg.Net56Factor, cfg.Net48Factor = 2, 3
		h := handlers.NewSite(t, cfg)
		at := func(third, fourth int) handlers.Option {
			return handlers.From(fmt.Sprintf("2001:db8:%x:%x::1", third, fourth))
		}
		passed := func(third int, fourth ...int) (n int) {
			for _, f := range fourth {
				tickets := handlers.TicketsOf(t, h, 2*handlers.LaneQuota, at(third, f))
				now.Advance(5 * time.Second)
				n += handlers.AdmittedWith(h, tickets, at(third, f))
			}
			return n
		}
		require.Equal(t, handlers.LaneQuota, passed(1, 1))
		require.Equal(t, handlers.LaneQuota, passed(1, 2))
		require.Zero(t, passed(1, 3), "a /56 has two")
		require.Equal(t, handlers.LaneQuota, passed(1, 0x101, 0x201), "a /48 three")
		require.Equal(t, handlers.LaneQuota, passed(2, 1))

		t.Run("are counted apart from the rest", func(t *testing.T) {
			cfg := handlers.Waiting(now, middleware.WhenExhausted)
			cfg.Net56Factor, cfg.Net48Factor = 1, 1
			h := handlers.NewSite(t, cfg)
			require.Equal(t, 5*handlers.LaneQuota, handlers.Admitted(h, 100, at(1, 1)))
			tickets := handlers.TicketsOf(t, h, 2*handlers.LaneQuota, at(1, 1))
			now.Advance(5 * time.Second)
			require.Equal(t, handlers.LaneQuota, handlers.AdmittedWith(h, tickets, at(1, 1)))
		})
	})
	t.Run("T9 T14 change any character, or the spelling", func(t *testing.T) {
		h, _, tickets := handlers.Opened(t, middleware.Newcomers)
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
			require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Holding(value)).StatusCode, value)
		}
		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.Holding(ticket)).StatusCode)
	})
	t.Run("T15 another policy's, another mode's, another kind", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		ticket := tickets[0]
		cfg := handlers.Waiting(now, middleware.Newcomers)
		cfg.Policy = "other"
		other := handlers.NewSite(t, cfg)
		require.Equal(t, http.StatusForbidden, handlers.Send(other, handlers.With("Cookie", "__Host-tallystick-other.wait="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.With("Cookie", "__Host-tallystick-contact="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.With("Cookie", "__Host-tallystick-contact.proof.0badcafe="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Showing(ticket), handlers.Proving(ticket)).StatusCode)
		own := handlers.Bought(t, h)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Holding(own)).StatusCode)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Holding(handlers.ChallengeIn(t, handlers.Fetched(h)).Text)).StatusCode)
	})
	t.Run("T16 T46 clocks that differ, and step back", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		ticket := tickets[0]
		now.Advance(-time.Second)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.HTML, handlers.Holding(ticket)).StatusCode)
		require.Equal(t, time.Second, h.Decisions.Last().RoomWait)
		now.Advance(-time.Hour)
		resp := handlers.Send(h, handlers.HTML, handlers.Holding(ticket))
		require.Equal(t, 5*time.Second, h.Decisions.Last().RoomWait, "a ticket of another time locks no client out")
		now.Advance(5 * time.Second)
		require.Equal(t, 1, handlers.Admitted(h, 10, handlers.Holding(handlers.WaitCookieIn(t, resp))))
	})
	t.Run("T18 T19 T20 huge, repeated and odd cookies", func(t *testing.T) {
		h, _, tickets := handlers.Opened(t, middleware.Newcomers)
		junk := strings.Repeat("A", 44)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.Holding(junk, junk, junk, junk, tickets[0])).StatusCode, "four are looked at")
		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.Holding(junk, junk, junk, tickets[0])).StatusCode)
		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.Holding(strings.Repeat("A", 4<<10), tickets[1]+"~"+strings.Repeat("A", 8<<10))).StatusCode)
		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.With("Cookie", strings.Repeat("x=y; ", 3000)+"__Host-tallystick-contact.wait="+tickets[2])).StatusCode)
		require.Equal(t, http.StatusForbidden, handlers.Send(h, handlers.With("Cookie", strings.Repeat("x=y; ", 4000)+"__Host-tallystick-contact.wait="+tickets[3])).StatusCode)
		w, r := &handlers.Sink{Fields: http.Header{}}, handlers.NewRequest(handlers.Holding(strings.Repeat("A", 600<<10)))
		require.Less(t, handlers.Allocated(func() { h.ServeHTTP(w, r) }), uint64(64<<10))
	})
	t.Run("T22 plant a spent tally", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		attacker := handlers.From("198.51.100.1")
		var theirs string
		stock := handlers.TicketsOf(t, h, handlers.LaneQuota, attacker)
		now.Advance(5 * time.Second)
		for _, ticket := range stock {
			theirs = handlers.WaitCookieIn(t, handlers.Send(h, handlers.Holding(ticket), attacker))
		}
		_, spent, _ := strings.Cut(theirs, "~")
		require.NotEmpty(t, spent)
		passed := 0
		for _, ticket := range tickets {
			passed += handlers.Admitted(h, 1, handlers.Holding(theirs, ticket+"~"+spent))
		}
		require.Equal(t, handlers.LaneQuota, passed)
	})
	t.Run("T31 the memory is full", func(t *testing.T) {
		now := new(handlers.Clock)
		cfg := handlers.Waiting(now, middleware.Newcomers)
		cfg.MaxClients = 1
		h := handlers.NewSite(t, cfg)
		passed := 0
		const people = 500
		for i := range people {
			at := handlers.From(fmt.Sprintf("198.51.%d.%d", i/250, i%250))
			tickets := handlers.TicketsOf(t, h, 2*handlers.LaneQuota, at)
			now.Advance(5 * time.Second)
			n := handlers.AdmittedWith(h, tickets, at)
			require.LessOrEqual(t, n, handlers.LaneQuota, "no client has more for that")
			passed += n
			now.Advance(-5 * time.Second)
		}
		require.Less(t, passed, people*handlers.LaneQuota, "it was full")
		require.GreaterOrEqual(t, passed, 16*handlers.LaneQuota)
	})
	t.Run("T43 the quota changes", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		require.Equal(t, handlers.LaneQuota, handlers.AdmittedWith(h, tickets))
		cfg := handlers.Waiting(now, middleware.Newcomers)
		cfg.Challenge.WaitingRoom = 2
		require.NoError(t, h.M.Reconfigure(cfg))
		require.Equal(t, handlers.LaneQuota, handlers.AdmittedWith(h, tickets[:handlers.LaneQuota]), "each lets in two now, and what it has let in stays counted")
		require.Zero(t, handlers.AdmittedWith(h, tickets[:handlers.LaneQuota]))
		require.Equal(t, 10-2*handlers.LaneQuota, handlers.AdmittedWith(h, tickets), "what was used stays used")
		cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true
		require.NoError(t, h.M.Reconfigure(cfg))
		now.Advance(time.Minute)
		require.Zero(t, handlers.AdmittedWith(h, tickets))
	})
	t.Run("T45 the answer does not say what is wrong with a ticket", func(t *testing.T) {
		h, now, tickets := handlers.Opened(t, middleware.Newcomers)
		expired := tickets[0]
		now.Advance(time.Hour)
		used, fresh := handlers.RefusedWithTicket(t, h), handlers.RefusedWithTicket(t, h)
		now.Advance(5 * time.Second)
		require.Equal(t, http.StatusOK, handlers.Send(h, handlers.Holding(used)).StatusCode)
		forged := fresh[:43] + map[bool]string{true: "B", false: "A"}[fresh[43] == 'A']
		strange := handlers.RefusedWithTicket(t, h, handlers.From("203.0.113.9"))
		answer := func(options ...handlers.Option) string {
			resp := handlers.Send(h, append(options, handlers.HTML)...)
			challenge, ticket := handlers.ChallengeIn(t, resp).Text, handlers.WaitCookieIn(t, resp)
			require.NotEmpty(t, ticket)
			var b strings.Builder
			require.NoError(t, resp.Header.Write(&b))
			return strings.NewReplacer(challenge, "CHALLENGE", ticket, "TICKET").Replace(b.String() + handlers.BodyOf(t, resp))
		}
		absent := answer()
		for name, ticket := range map[string]string{"used up": used, "expired": expired, "forged": forged, "strange": strange, "garbage": "x"} {
			require.Equal(t, absent, answer(handlers.Holding(ticket)), name)
		}
		require.NotContains(t, absent, "203.0.113")
	})
}
