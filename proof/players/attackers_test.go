// SPDX-License-Identifier: Apache-2.0

package players

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
)

const quota, work = 10, 32

// newSite starts three instances that serve at once. Each admits ten requests.
func newSite(challenge *middleware.Challenge) *fleet.Moved {
	s := fleet.New(3, middleware.Config{Limits: []middleware.Limit{{Quota: quota, Window: time.Minute}}, Cost: fleet.CostOf, Challenge: challenge})
	s.AtOnce = true
	return s
}

// selling is a challenge of a mode, with a waiting room or without one.
func selling(mode middleware.Mode, room bool) *middleware.Challenge {
	c := &middleware.Challenge{Mode: mode, Work: work, Crowd: 8, Path: "/tally/"}
	c.NoWaitingRoom = !room
	return c
}

func attack(s fleet.Fleet, from ...string) *Attacker {
	return &Attacker{Fleet: s, From: append(from, "192.0.2.1:1"), Random: rand.New(rand.NewPCG(1, 2))}
}

// Each attacker gets what the table of bounds gives it, of instances that serve at once.
func TestAttackersGetTheirBound(t *testing.T) {
	var network []string
	for i := range 16 {
		network = append(network, fmt.Sprintf("[2001:db8:0:%x::1]:1", i))
	}
	balanced := func() int { return fleet.Balancer }
	for name, test := range map[string]struct {
		challenge   *middleware.Challenge
		from        []string
		play        func(s *fleet.Moved, a *Attacker)
		least, most int64
	}{
		"echoes":               {play: func(_ *fleet.Moved, a *Attacker) { a.Echo(balanced) }, least: quota, most: quota},
		"echoes, in turn":      {play: func(_ *fleet.Moved, a *Attacker) { a.Echo(a.Next) }, least: quota, most: quota},
		"six at once":          {play: func(_ *fleet.Moved, a *Attacker) { a.AtOnce(6, balanced) }, least: quota, most: 3 * quota},
		"drops":                {play: func(_ *fleet.Moved, a *Attacker) { a.Drop() }, least: 3 * quota, most: 3 * quota},
		"drops, in bulk":       {play: func(_ *fleet.Moved, a *Attacker) { a.Drain(fleet.Request{Cost: 7}) }, least: quota, most: quota},
		"replays":              {play: func(_ *fleet.Moved, a *Attacker) { a.Replay() }, least: 3*quota - 2, most: 3 * quota},
		"forks":                {play: func(_ *fleet.Moved, a *Attacker) { a.Fork() }, least: 3*quota - 2, most: 3 * quota},
		"rolls back":           {play: func(_ *fleet.Moved, a *Attacker) { a.RollBack() }, least: quota, most: 3 * quota},
		"holds a /56":          {from: network, play: func(_ *fleet.Moved, a *Attacker) { a.Drop() }, least: 8*3*quota + 3*quota, most: 8*3*quota + 3*quota},
		"buys two tallies":     {challenge: selling(middleware.WhenExhausted, false), play: func(_ *fleet.Moved, a *Attacker) { a.Farm(2, 2) }, least: 9 * quota, most: 9 * quota},
		"buys, works first":    {challenge: selling(middleware.Newcomers, false), play: func(_ *fleet.Moved, a *Attacker) { a.Buy(1); a.Drop(); a.Use(1) }, least: 3 * quota, most: 3 * quota},
		"shows four proofs":    {challenge: selling(middleware.EveryRequest, true), play: func(_ *fleet.Moved, a *Attacker) { a.Prove(4) }, least: 3 * 4, most: 3 * 4},
		"waits":                {challenge: selling(middleware.Newcomers, true), play: func(s *fleet.Moved, a *Attacker) { a.Wait(4, func() { s.Advance(10 * time.Second) }) }, least: 3 * quota / 5, most: 3 * quota / 5},
		"is refused, and asks": {play: func(_ *fleet.Moved, a *Attacker) { a.Refusals = 5; a.Drain(fleet.Request{To: fleet.Balancer}) }, least: 3*quota - 4, most: 3 * quota},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(test.challenge)
			a := attack(s, test.from...)
			test.play(s, a)
			require.NoError(t, s.Failed)
			require.GreaterOrEqual(t, a.Gained().Admitted, test.least)
			require.LessOrEqual(t, a.Gained().Admitted, test.most)
		})
	}
}

// A buyer gets as many tallies for its purse as are sold for it, one crowd of eight at each price, and goes on where a
// neighbour has raised it.
func TestBuyer(t *testing.T) {
	s := newSite(selling(middleware.WhenExhausted, false))
	a := attack(s)
	b := a.Buyer(8, 0, func(int) string { return a.From[0] })
	for b.Buy(3*8*work) != "" {
	}
	got := a.Gained()
	require.EqualValues(t, 3*8, got.Bought, "eight of each instance, at the first price")
	require.Equal(t, Gain{0, 3 * 8 * work, 3 * 8, 3 * 8}, got)

	neighbour := attack(s)
	for range 12 {
		neighbour.Buy(0)
	}
	b.stock[1], b.stock[2] = nil, nil
	require.NotEmpty(t, b.Buy(1<<40))
	require.Greater(t, a.Gained().Solved, a.Gained().Bought, "its stock was worth nothing")
	require.Empty(t, (&Buyer{a: a}).Buy(1<<40), "no instance sells")
}

// Where nothing limits, no player asks for ever; where nothing is sold, that is told.
func TestAttackersEnd(t *testing.T) {
	open := fleet.New(1, middleware.Config{Limits: []middleware.Limit{{Quota: 1 << 30, Window: time.Minute}}})
	open.AtOnce = true
	a := attack(open)
	a.Endless = 5
	a.Drop()
	require.EqualValues(t, 5, a.Gained().Admitted)
	a.Farm(1, 1)
	require.ErrorIs(t, open.Failed, errNotSold)
	open.Failed = nil
	require.Empty(t, a.Buy(0))
	require.ErrorIs(t, open.Failed, errNotSold)
	a.Wait(1, func() {})
	require.Empty(t, a.waits)
}

func TestClaims(t *testing.T) {
	s := newSite(selling(middleware.Newcomers, false))
	sold := attack(s).Buy(0)
	own, expires := fleet.Claims(sold)
	require.NotEmpty(t, own)
	require.Greater(t, expires, fleet.Midnight.Unix())
	for _, none := range []string{"", "a.b", "a.b.c", "a.!.c", "a.e30.c", "a.AAAA.c", "a.YQ.c", "a.b.c.d", sold + ".d", sold[:strings.LastIndex(sold, ".")]} {
		own, expires = fleet.Claims(none)
		require.Zero(t, own)
		require.Zero(t, expires)
	}
}

// A refusing fleet admits nothing of what a client has bought.
type refusing struct{ fleet.Fleet }

func (r refusing) Ask(q fleet.Request) fleet.Answer {
	if len(q.Tokens) > 0 && q.Tokens[0] != "" && q.Proof == "" {
		return fleet.Answer{Status: http.StatusTooManyRequests, Header: http.Header{}}
	}
	return r.Fleet.Ask(q)
}

// An honest client has its quota on any instance for one proof, over one connection or six. Where it is refused with room, it says so.
func TestHonest(t *testing.T) {
	client := func(f fleet.Fleet) *Honest {
		return &Honest{Attacker: attack(f), Quota: quota, Payable: 1 << 10}
	}
	for name, want := range map[string]func(*Honest){
		"one connection": func(h *Honest) {
			for range quota {
				h.Want(h.Next)
			}
		},
		"six": func(h *Honest) { h.Connections(quota, h.Any) },
	} {
		h := client(newSite(selling(middleware.Newcomers, false)))
		want(h)
		require.Equal(t, Fared{Requests: quota, Admitted: quota, Proofs: 1, Dearest: work}, h.Fared, name)
	}
	h := client(refusing{newSite(selling(middleware.Newcomers, false))})
	h.Want(h.Next)
	h.Want(h.Next)
	require.Equal(t, Fared{Requests: 2, Admitted: 1, Early: 1, Proofs: 1, Dearest: work}, h.Fared)
	poor := client(newSite(selling(middleware.Newcomers, false)))
	poor.Payable = work - 1
	poor.Want(poor.Next)
	require.Equal(t, Fared{Requests: 1}, poor.Fared, "too dear")

	all := h.Fared
	all.Add(Fared{Requests: 1, Admitted: 1, Proofs: 2, Dearest: 2 * work})
	require.Equal(t, Fared{Requests: 3, Admitted: 2, Early: 1, Proofs: 3, Dearest: 2 * work}, all)
}
