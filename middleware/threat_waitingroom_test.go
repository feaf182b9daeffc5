package middleware_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// The threats that wait tickets bring. What bounds them all is the waiting room's family.
func TestThreatsOfTheWaitingRoom(t *testing.T) {
	const instances = 3
	// opened returns a site of Newcomers and a ticket of 203.0.113.1 that is open.
	opened := func(t *testing.T) (*site, *clock, string) {
		now := new(clock)
		h := newSite(t, waiting(now, middleware.Newcomers))
		ticket := refusedWithTicket(t, h)
		now.advance(5 * time.Second)
		return h, now, ticket
	}

	t.Run("T1 T5 gather tickets, drop the tally", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, waiting(now, middleware.Newcomers))
		var tickets []string
		for range 200 {
			tickets = append(tickets, refusedWithTicket(t, h))
			now.advance(time.Millisecond)
		}
		now.advance(5 * time.Second)
		passed := 0
		for _, ticket := range tickets {
			passed += admitted(h, 2, holding(ticket))
		}
		require.Equal(t, laneQuota, passed)
		require.Equal(t, 0, admitted(h, 2, holding(tickets[:4]...)))
	})
	t.Run("T2 replay a ticket, roll back its tally", func(t *testing.T) {
		h, _, ticket := opened(t)
		first := waitCookieIn(t, send(h, holding(ticket)))
		require.Equal(t, laneQuota-1, admitted(h, 1000, holding(first)))
		require.Zero(t, admitted(h, 1000, holding(ticket)))
	})
	t.Run("T4 in parallel", func(t *testing.T) {
		h, _, ticket := opened(t)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { admitted(h, 10, holding(ticket)) })
		}
		group.Wait()
		require.EqualValues(t, laneQuota, h.spy.calls.Load())
	})
	t.Run("T3 T42 several instances, and cold starts", func(t *testing.T) {
		const cold = 2
		for name, mode := range allModes {
			t.Run(name, func(t *testing.T) {
				now := new(clock)
				cfg := waiting(now, mode)
				first := newSite(t, cfg)
				spendShared(t, first, mode)
				ticket := refusedWithTicket(t, first)
				now.advance(5 * time.Second)
				total := int64(0)
				sites := []*site{first}
				for len(sites) < instances+cold {
					sites = append(sites, newSite(t, cfg))
				}
				for _, s := range sites {
					admitted(s, 200, holding(ticket))
					total += s.spy.calls.Load()
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
		now := new(clock)
		h := newSite(t, waiting(now, middleware.EveryRequest))
		ticket := refusedWithTicket(t, h)
		now.advance(5 * time.Second)
		const proofs = 3
		for range proofs {
			proof := solved(t, fetched(h))
			require.Equal(t, http.StatusOK, send(h, proving(proof), holding(ticket)).StatusCode)
			require.False(t, h.decisions.last().FromWaitingRoom, "a proof that is good is used")
		}
		require.Equal(t, laneQuota, admitted(h, 100, holding(ticket)))
		require.EqualValues(t, proofs+laneQuota, h.spy.calls.Load())
	})
	t.Run("T6 another address's", func(t *testing.T) {
		h, now, ticket := opened(t)
		other := from("203.0.113.2")
		require.Zero(t, admitted(h, 10, holding(ticket), other))
		value := waitCookieIn(t, send(h, holding(ticket)))
		require.Zero(t, admitted(h, 10, holding(value), other))
		own := refusedWithTicket(t, h, holding(value), other)
		require.NotEqual(t, ticket, own)
		now.advance(5 * time.Second)
		require.Equal(t, laneQuota, admitted(h, 10, holding(value, own), other), "and it takes nothing from who shows it")
	})
	t.Run("T7 IPv6 networks", func(t *testing.T) {
		now := new(clock)
		cfg := waiting(now, middleware.Newcomers)
		cfg.Net56Factor, cfg.Net48Factor = 2, 3
		h := newSite(t, cfg)
		at := func(third, fourth int) option { return from(fmt.Sprintf("2001:db8:%x:%x::1", third, fourth)) }
		passed := func(third int, fourth ...int) (n int) {
			for _, f := range fourth {
				ticket := refusedWithTicket(t, h, at(third, f))
				now.advance(5 * time.Second)
				n += admitted(h, 10, holding(ticket), at(third, f))
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
			ticket := refusedWithTicket(t, h, at(1, 1))
			now.advance(5 * time.Second)
			require.Equal(t, laneQuota, admitted(h, 10, holding(ticket), at(1, 1)))
		})
	})
	t.Run("T9 T14 change any character, or the spelling", func(t *testing.T) {
		h, _, ticket := opened(t)
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
		h, now, ticket := opened(t)
		cfg := waiting(now, middleware.Newcomers)
		cfg.Policy = "other"
		other := newSite(t, cfg)
		require.Equal(t, http.StatusForbidden, send(other, with("Cookie", "__Host-tallystick-other.wait="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, with("Cookie", "__Host-tallystick-contact="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, with("Cookie", "__Host-tallystick-contact.proof="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, showing(ticket), proving(ticket)).StatusCode)
		own := bought(t, h)
		require.Equal(t, http.StatusForbidden, send(h, holding(own)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, holding(challengeIn(t, fetched(h)).Text)).StatusCode)
	})
	t.Run("T16 T46 clocks that differ, and step back", func(t *testing.T) {
		h, now, ticket := opened(t)
		now.advance(-time.Second)
		require.Equal(t, http.StatusForbidden, send(h, html, holding(ticket)).StatusCode)
		require.Equal(t, time.Second, h.decisions.last().RoomWait)
		now.advance(-time.Hour)
		resp := send(h, html, holding(ticket))
		require.Equal(t, 5*time.Second, h.decisions.last().RoomWait, "a ticket of another time locks nobody out")
		now.advance(5 * time.Second)
		require.Equal(t, laneQuota, admitted(h, 10, holding(waitCookieIn(t, resp))))
	})
	t.Run("T18 T19 T20 huge, repeated and odd cookies", func(t *testing.T) {
		h, _, ticket := opened(t)
		junk := strings.Repeat("A", 44)
		require.Equal(t, http.StatusForbidden, send(h, holding(junk, junk, junk, junk, ticket)).StatusCode, "four are looked at")
		require.Equal(t, http.StatusOK, send(h, holding(junk, junk, junk, ticket)).StatusCode)
		require.Equal(t, http.StatusOK, send(h, holding(strings.Repeat("A", 4<<10), ticket+"~"+strings.Repeat("A", 8<<10))).StatusCode)
		require.Equal(t, http.StatusOK, send(h, with("Cookie", strings.Repeat("x=y; ", 3000)+"__Host-tallystick-contact.wait="+ticket)).StatusCode)
		require.Equal(t, http.StatusForbidden, send(h, with("Cookie", strings.Repeat("x=y; ", 4000)+"__Host-tallystick-contact.wait="+ticket)).StatusCode)
		w, r := &sink{http.Header{}}, newRequest(holding(strings.Repeat("A", 600<<10)))
		require.Less(t, allocated(func() { h.ServeHTTP(w, r) }), uint64(64<<10))
	})
	t.Run("T22 plant a spent tally", func(t *testing.T) {
		h, now, ticket := opened(t)
		attacker := from("198.51.100.1")
		theirs := refusedWithTicket(t, h, attacker)
		now.advance(5 * time.Second)
		for range laneQuota {
			theirs = waitCookieIn(t, send(h, holding(theirs), attacker))
		}
		_, spent, _ := strings.Cut(theirs, "~")
		require.NotEmpty(t, spent)
		require.Equal(t, laneQuota, admitted(h, 10, holding(theirs, ticket+"~"+spent)))
	})
	t.Run("T31 the memory is full", func(t *testing.T) {
		now := new(clock)
		cfg := waiting(now, middleware.Newcomers)
		cfg.MaxClients = 1
		h := newSite(t, cfg)
		passed := 0
		const crowd = 500
		for i := range crowd {
			at := from(fmt.Sprintf("198.51.%d.%d", i/250, i%250))
			ticket := refusedWithTicket(t, h, at)
			now.advance(5 * time.Second)
			n := admitted(h, 2*laneQuota, holding(ticket), at)
			require.LessOrEqual(t, n, laneQuota, "nobody has more for that")
			passed += n
			now.advance(-5 * time.Second)
		}
		require.Less(t, passed, crowd*laneQuota, "it was full")
		require.GreaterOrEqual(t, passed, 16*laneQuota)
	})
	t.Run("T43 the quota changes", func(t *testing.T) {
		h, now, ticket := opened(t)
		require.Equal(t, laneQuota, admitted(h, 10, holding(ticket)))
		cfg := waiting(now, middleware.Newcomers)
		cfg.Challenge.WaitingRoom.Share = 2
		require.NoError(t, h.m.Reconfigure(cfg))
		require.Equal(t, 10-laneQuota, admitted(h, 20, holding(ticket)), "what was used stays used")
		cfg.Challenge.WaitingRoom.Share, cfg.Challenge.WaitingRoom.Closed = 0, true
		require.NoError(t, h.m.Reconfigure(cfg))
		now.advance(time.Minute)
		require.Zero(t, admitted(h, 10, holding(ticket)))
	})
	t.Run("T45 the answer does not say what is wrong with a ticket", func(t *testing.T) {
		h, now, expired := opened(t)
		now.advance(time.Hour)
		fresh := refusedWithTicket(t, h)
		forged := fresh[:43] + map[bool]string{true: "B", false: "A"}[fresh[43] == 'A']
		strange := refusedWithTicket(t, h, from("203.0.113.9"))
		answer := func(options ...option) string {
			resp := send(h, append(options, html)...)
			challenge := challengeIn(t, resp).Text
			var b strings.Builder
			require.NoError(t, resp.Header.Write(&b))
			return strings.ReplaceAll(b.String()+bodyOf(t, resp), challenge, "CHALLENGE")
		}
		absent := answer()
		for name, ticket := range map[string]string{"expired": expired, "forged": forged, "strange": strange, "garbage": "x"} {
			require.Equal(t, absent, answer(holding(ticket)), name)
		}
		require.NotContains(t, absent, "203.0.113")
	})
}

func newRequest(options ...option) *http.Request {
	r, err := http.NewRequest(http.MethodPost, "/", http.NoBody)
	if err != nil {
		panic(err)
	}
	from("203.0.113.1")(r)
	for _, option := range options {
		option(r)
	}
	return r
}
