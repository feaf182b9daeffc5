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
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/players"
)

// Each attacker of a turn asks each instance for more than it may have, so that a bound that
// does not hold is exceeded. It is called by its kind, and the book has its admissions.

// villains are those that have one address for a cycle.
type villains struct {
	dropper, forker, roller, farmer, sitter, hanger *caller
	hammers, gluttons                               []*caller
	guesser, keeper, fixed, bucket                  *caller
	owned                                           []string
	turns                                           int
}

func (w *world) villains() *villains {
	return &villains{
		dropper: w.caller(windowed, "drops", 0), forker: w.caller(windowed, "forks", 0), roller: w.caller(windowed, "rolls-back", 0),
		farmer: w.caller(form, "farms", 0), sitter: w.caller(form, "waits", 0), hanger: w.caller(slow, "hangs-up", 0),
		guesser: w.caller(login, "guesses", 0), keeper: w.caller(form, "keeps forms", 0), fixed: w.caller(fixed, "forks", 1), bucket: w.caller(bucket, "drops", 1),
		hammers:  []*caller{w.caller(paid, "hammers", 0), w.caller(open, "hammers", 0)},
		gluttons: []*caller{w.caller(paid, "devours", 0), w.caller(open, "devours", 0)},
	}
}

func (v *villains) run(ctx context.Context, w *world, t turn, wg *sync.WaitGroup) {
	wg.Go(v.dropper.Drop)
	wg.Go(v.roller.Replay)
	wg.Go(v.forker.Fork)
	wg.Go(v.fixed.Fork)
	wg.Go(v.bucket.Drop)
	wg.Go(func() { v.guesser.everywhere(fleet.Request{Fields: []string{instance.Wrong, "1"}}) })
	wg.Go(v.keep)
	wg.Go(func() { v.farm(t) })
	v.turns++
	wg.Go(func() { v.sitter.Wait(min(4, v.turns), func() {}) }) // it will be time in the next turn
	wg.Go(func() { v.hang(ctx, w) })
	if t.round%ofCycle == calmly {
		// Before Redis is killed: some answers are lost with that, and may have been charged, so that a hammer may never reach its quota.
		for _, g := range v.gluttons {
			wg.Go(func() { g.hammer(exactQuota/instances + 1) })
		}
	}
	for _, h := range v.hammers {
		wg.Go(func() { h.hammer(12) })
	}
}

// everywhere shows something to every instance.
func (c *caller) everywhere(r fleet.Request) {
	c.Together(instances, func(i int) {
		r := r
		r.To = i
		c.Drain(r)
	})
}

// keep fills in a form that a refusal has to keep.
func (v *villains) keep() {
	for i := range 2 * instances {
		v.keeper.eyes.send(fleet.Request{To: i, From: v.keeper.From[0], Fields: []string{
			"Accept", "text/html", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin",
		}}, "text="+strings.Repeat("%22", 20_000))
	}
}

// hammer asks all instances at once.
func (c *caller) hammer(each int) {
	c.Together(instances, func(i int) {
		for range each {
			c.Ask(fleet.Request{To: i})
		}
	})
}

// farm buys tallies, and shows each to all instances at once, to each for more than it has there.
func (v *villains) farm(t turn) {
	if t.calm && len(v.owned) < 3 {
		seller := int(t.round) % instances
		if own := v.farmer.buy(seller, seller+1); own != "" {
			v.owned = append(v.owned, own)
		}
	}
	for _, own := range v.owned {
		v.farmer.everywhere(fleet.Request{Tokens: []string{own}})
	}
}

// hang opens as many requests as are served at once, sends none of their bodies, sees that
// further ones are refused, and hangs up. All places must come back: the next turn takes them.
func (v *villains) hang(ctx context.Context, w *world) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
			w.HangUps.Add(1)
		}
	}()
	for end := time.Now().Add(patience); len(held) < atOnce; {
		c, served, err := v.hanger.hold()
		switch {
		case err != nil:
			w.Broken.Note("a slow client: %v", err)
			return
		case served:
			held = append(held, c)
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
		if c, served, err := v.hanger.hold(); err == nil && served {
			held = append(held, c) // the gauge has seen it
		}
	}
}

// hold begins a request whose body does not come, and says whether it is being served. The body is
// so large that a server which refuses it does not wait for its end.
func (c *caller) hold() (_ net.Conn, served bool, err error) {
	conn, err := c.w.dial()
	if err != nil {
		return nil, false, err
	}
	_, err = fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: soak\r\n%s: %s\r\nX-Forwarded-For: %s\r\nContent-Length: 1000000\r\n\r\nslow",
		c.eyes.Policy, instance.ClientHeader, c.name, c.From[0])
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
	var all [8]*caller
	var tokens [8][4]string
	for i := range all {
		all[i] = w.caller(windowed, "wanders", i)
	}
	for ctx.Err() == nil {
		i := r.IntN(len(all))
		w.hold.RLock()
		t := all[i].Ask(fleet.Request{To: r.IntN(instances), Tokens: []string{tokens[i][r.IntN(4)]}}).Token()
		w.hold.RUnlock()
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
	var at [64]map[string]*caller
	for i := range at {
		at[i] = map[string]*caller{}
		for _, policy := range []string{windowed, form, busy} {
			at[i][policy] = w.caller(policy, "floods", number)
		}
	}
	for ctx.Err() == nil && w.flooding.Load() {
		ask := fleet.Request{To: r.IntN(instances)}
		switch f := all[r.IntN(len(all))]; r.IntN(4) {
		case 0:
			ask.Cookie = "__Host-tallystick-" + windowed + "=" + f
		case 1:
			ask.Proof = f
		default:
			ask.Fields = []string{middleware.TokenHeader, f}
		}
		w.hold.RLock()
		at[r.IntN(len(at))][[]string{windowed, form, busy, busy}[r.IntN(4)]].Ask(ask)
		w.hold.RUnlock()
		w.Forged.Add(1)
	}
}
