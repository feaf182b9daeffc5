// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/middleware"
)

// Each attacker of a turn asks each instance for more than it may have, so that a bound that
// does not hold is exceeded. It is called by its kind, and the book has its admissions.

// villains are those that have one address for a cycle.
type villains struct {
	dropper, forker, roller, farmer, sitter, hanger *caller
	hammers                                         map[string]*caller
	gluttons                                        []*caller
	tickets                                         []string
	owned                                           []property
}

// A property is a tally that was bought, by its first token, and the instance that has sold it.
type property struct {
	token string
	home  int
}

func (w *world) villains() *villains {
	v := &villains{
		dropper: w.caller(windowed, "drops", 0), forker: w.caller(windowed, "forks", 0), roller: w.caller(windowed, "rolls-back", 0),
		farmer: w.caller(form, "farms", 0), sitter: w.caller(form, "waits", 0), hanger: w.caller(slow, "hangs-up", 0),
		hammers:  map[string]*caller{paid: w.caller(paid, "hammers", 0), open: w.caller(open, "hammers", 0)},
		gluttons: []*caller{w.caller(paid, "devours", 0), w.caller(open, "devours", 0)},
	}
	return v
}

// try sends the request of an attacker: what becomes of it, the servers know.
func (c *caller) try(instance int, fields ...string) answer {
	a, _ := c.ask(instance, http.MethodPost, "", "", fields...)
	return a
}

// everywhere asks every instance for more than a quota.
func (c *caller) everywhere(more int64, fields ...string) {
	for i := range instances {
		for range more {
			c.try(i, fields...)
		}
	}
}

func (v *villains) run(ctx context.Context, w *world, t turn, wg *sync.WaitGroup) {
	most := quotaOf(windowed, 1) + 3
	wg.Go(func() { v.dropper.everywhere(most) })
	wg.Go(func() {
		first := v.roller.try(0).token()
		v.roller.everywhere(most, middleware.TokenHeader, first)
	})
	first := v.forker.try(0).token()
	for i := range instances {
		wg.Go(func() {
			for range most {
				v.forker.try(i, middleware.TokenHeader, first)
			}
		})
	}
	wg.Go(func() { v.farm(t) })
	wg.Go(func() { v.sit(t) })
	wg.Go(func() { v.hang(ctx, w) })
	if t.round%ofCycle == calmly {
		for _, g := range v.gluttons {
			wg.Go(g.devour)
		}
	}
	for _, h := range v.hammers {
		wg.Go(func() {
			var at sync.WaitGroup
			for i := range instances {
				at.Go(func() {
					for range 12 {
						h.try(i)
					}
				})
			}
			at.Wait()
		})
	}
}

// devour asks an exact route for more than its quota before Redis is killed: some answers are lost with that, and may
// have been charged, so that a hammer may never reach it.
func (c *caller) devour() {
	var at sync.WaitGroup
	for i := range instances {
		at.Go(func() {
			for range exactQuota/instances + 1 {
				c.try(i)
			}
		})
	}
	at.Wait()
}

// farm buys tallies, and shows each to all instances at once, to each for more than it has there.
func (v *villains) farm(t turn) {
	if t.calm && len(v.owned) < 3 {
		home := int(t.round) % instances
		if own, _ := v.farmer.buy(home, home+1); own != "" {
			v.owned = append(v.owned, property{own, home})
		}
	}
	most := quotaOf(form, 1)
	for _, own := range v.owned {
		var at sync.WaitGroup
		for i := range instances {
			more := most + 3
			if i != own.home {
				more = (chance.Share(most, instances, 1)+most)/2 + 3
			}
			at.Go(func() {
				for range more {
					v.farmer.try(i, middleware.TokenHeader, own.token)
				}
			})
		}
		at.Wait()
	}
}

// sit gathers tickets of the waiting room, and shows them everywhere.
func (v *villains) sit(t turn) {
	for _, ticket := range v.tickets {
		v.sitter.everywhere(6, "Cookie", ticket)
	}
	if len(v.tickets) < 4 {
		if ticket := v.sitter.ticket(int(t.round)); ticket != "" {
			v.tickets = append(v.tickets, ticket)
		}
	}
}

// patience is how long something may take that must come, on a machine that is busy.
const patience = 2 * time.Minute

// hang opens as many requests as are served at once, sends none of their bodies, sees that
// further ones are refused, and hangs up. All places must come back: the next turn takes them.
func (v *villains) hang(ctx context.Context, w *world) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
			w.hangUps.Add(1)
		}
	}()
	for end := time.Now().Add(patience); len(held) < atOnce; {
		c, served, err := v.hanger.hold(w.sites[0].addr)
		switch {
		case err != nil:
			w.broken.Note("a slow client: " + err.Error())
			return
		case served:
			held = append(held, c)
		case time.Now().After(end) || ctx.Err() != nil && len(held) == 0:
			if ctx.Err() == nil {
				w.lostSlots.Note(fmt.Sprintf("of %d places %d were taken", atOnce, len(held)))
			}
			return
		default:
			time.Sleep(time.Millisecond) // a server notices in its own time that one has hung up
		}
	}
	for range 3 {
		if c, served, err := v.hanger.hold(w.sites[0].addr); err == nil && served {
			held = append(held, c) // the gauge has seen it
		}
	}
}

// hold begins a request whose body does not come, and says whether it is being served. The body is
// so large that a server which refuses it does not wait for its end.
func (c *caller) hold(addr string) (_ net.Conn, served bool, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, false, err
	}
	_, err = fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: soak\r\n%s: %s\r\nX-Forwarded-For: %s\r\nContent-Length: 1000000\r\n\r\nslow",
		c.policy, nameField, c.name, c.address)
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
		i, k := r.IntN(len(all)), r.IntN(4)
		var fields []string
		if t := tokens[i][k]; t != "" {
			fields = []string{middleware.TokenHeader, t}
		}
		if t := all[i].try(r.IntN(instances), fields...).token(); t != "" {
			tokens[i][r.IntN(4)] = t
		}
		w.restless.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}
