// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/players"
)

// Each attacker of a turn asks each instance for more than it may have, so that a bound that
// does not hold is exceeded. It is called by its kind, and the oracle has its admissions.

// villains returns those that have one address for a cycle, as what each does in a turn.
func (w *world) villains(ctx context.Context) (all []func(t turn)) {
	do := func(policy, kind string, number int, f func(c *court.Client, t turn)) {
		c := w.caller(policy, kind, number)
		all = append(all, func(t turn) { f(c, t) })
	}
	drops, forks := func(c *court.Client, _ turn) { c.Drop() }, func(c *court.Client, _ turn) { c.Fork() }
	do(windowed, "drops", 0, drops)
	do(bucket, "drops", 1, drops)
	do(windowed, "forks", 0, forks)
	do(fixed, "forks", 1, forks)
	do(windowed, "rolls-back", 0, func(c *court.Client, _ turn) { c.Replay() })
	do(login, "guesses", 0, func(c *court.Client, _ turn) { c.Everywhere(1, fleet.Request{Fields: []string{house.Wrong, "1"}}) })
	do(form, "keeps forms", 0, func(c *court.Client, _ turn) { // that a refusal has to keep
		for i := range 2 * instances {
			c.Say(fleet.Request{To: i, From: c.From[0], Fields: []string{
				"Accept", "text/html", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin",
			}}, "text="+strings.Repeat("%22", 20_000))
		}
	})
	var owned []string
	do(form, "farms", 0, func(c *court.Client, t turn) { // buys tallies, and shows each to each instance for more than it has there
		if seller := int(t.round) % instances; t.calm && len(owned) < 3 && c.Purchase(seller, seller+1) {
			owned = append(owned, c.Token)
		}
		for _, own := range owned {
			c.Everywhere(1, fleet.Request{Tokens: []string{own}})
		}
	})
	turns := 0
	do(form, "waits", 0, func(c *court.Client, _ turn) { // it will be time in the next turn
		turns++
		c.Wait(min(4, turns), func() {})
	})
	do(slow, "hangs-up", 0, func(c *court.Client, _ turn) { w.hang(ctx, c) })
	do(paid, "hammers", 0, func(c *court.Client, _ turn) { c.Everywhere(4, fleet.Request{}) })
	return all
}

// hang opens as many requests as are served at once, sends none of their bodies, sees that
// further ones are refused, and hangs up. All places must come back: the next turn takes them.
func (w *world) hang(ctx context.Context, c *court.Client) {
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
			w.HangUps.Add(1)
		}
	}()
	for end := time.Now().Add(patience); len(held) < atOnce; {
		conn, served, err := w.holds(c)
		switch {
		case err != nil:
			w.Broken.Note("a slow client: %v", err)
			return
		case served:
			held = append(held, conn)
		case time.Now().After(end) || ctx.Err() != nil && len(held) == 0:
			if ctx.Err() == nil {
				w.LostSlots.Note("of %d places %d were taken", atOnce, len(held))
			}
			return
		default:
			time.Sleep(time.Millisecond) // a server notices in its own time that one has hung up
		}
	}
	for range 3 {
		if conn, served, err := w.holds(c); err == nil && served {
			held = append(held, conn) // the gauge has seen it
		}
	}
}

// hold begins a request whose body does not come, and says whether it is being served. The body is
// so large that a server which refuses it does not wait for its end.
func (w *world) holds(c *court.Client) (_ net.Conn, served bool, err error) {
	conn, err := net.Dial("tcp", w.Where(0).Front.String())
	if err != nil {
		return nil, false, err
	}
	_, err = fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: soak\r\n%s: %s\r\nX-Forwarded-For: %s\r\nContent-Length: 1000000\r\n\r\nslow",
		c.Policy, house.ClientHeader, c.Name, c.From[0])
	if err == nil {
		var line string
		line, err = textproto.NewReader(bufio.NewReader(conn)).ReadLine()
		served = strings.Contains(line, " 103 ")
	}
	if !served {
		_ = conn.Close()
	}
	return conn, served, err
}

// wander goes on through all turns, and while clocks are moved: some addresses drop, roll back and
// fork what they have gathered, wherever they come.
func (w *world) wander(ctx context.Context, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	var all [8]*court.Client
	var tokens [8][4]string
	for i := range all {
		all[i] = w.caller(windowed, "wanders", i)
	}
	for ctx.Err() == nil {
		i := r.IntN(len(all))
		w.standing.RLock()
		t := all[i].Ask(fleet.Request{To: r.IntN(instances), Tokens: []string{tokens[i][r.IntN(4)]}}).Token()
		w.standing.RUnlock()
		if t != "" {
			tokens[i][r.IntN(4)] = t
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// floods sends forged tokens and proofs as fast as it can while it is on. Half of it goes where it may make an instance
// busy, which a slow machine would else hardly ever be.
func (w *world) floods(ctx context.Context, number int) {
	r := rand.New(rand.NewPCG(uint64(number), 11))
	all := players.Forgeries(w.caller(windowed, "model", 0).Ask(fleet.Request{}).Token())
	var at [64]map[string]*court.Client
	for i := range at {
		at[i] = map[string]*court.Client{}
		for _, policy := range []string{windowed, form, busy} {
			at[i][policy] = w.caller(policy, "floods", number)
		}
	}
	for ctx.Err() == nil && w.flooding.Load() {
		ask := fleet.Request{To: r.IntN(instances)}
		switch f := all[r.IntN(len(all))]; r.IntN(4) {
		case 0:
			ask.Cookie = court.Cookie(windowed) + "=" + f
		case 1:
			ask.Proof = f
		default:
			ask.Fields = []string{middleware.TokenHeader, f}
		}
		w.standing.RLock()
		at[r.IntN(len(at))][[]string{windowed, form, busy, busy}[r.IntN(4)]].Ask(ask)
		w.standing.RUnlock()
		w.Forged.Add(1)
	}
}
