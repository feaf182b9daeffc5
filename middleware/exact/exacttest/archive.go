// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// archives moves an account again and again while it is used: out of the counter, into one in
// memory, and back, where it was forgotten meanwhile. It counts on as if it had stayed.
func archives(r *run) {
	c, ok := r.archive()
	if !ok {
		return
	}
	r.isOfAccounts(func(r *run, step int, name string) (moved bool) {
		if moved = step%67 == 66; moved {
			r.moves(c, name)
		}
		return moved
	})
}

// archive returns the counter if it can list its accounts.
func (r *run) archive() (c engine.Archive, ok bool) {
	if c, ok = r.Counter.(engine.Archive); !ok {
		return nil, false
	}
	err := c.Each(context.Background(), func(engine.Record) error { return errFound })
	return c, !errors.Is(err, exact.ErrNoArchive)
}

// moves moves an account, by way of a counter in memory.
func (r *run) moves(c engine.Archive, name string) {
	ctx, m := context.Background(), memory.New(0, r.clock.Now)
	out, err := recordOf(c, name)
	r.no(err)
	if err := c.Restore(ctx, out); !errors.Is(err, engine.ErrKept) {
		r.fail("restored where there is an account: %v, want ErrKept", err)
	}
	r.in("forgotten").no(c.Forget(ctx, name))
	r.in("forgotten twice").no(c.Forget(ctx, name))
	r.in("restored in memory").no(m.Restore(ctx, out))
	back, err := recordOf(m, name)
	r.in("in memory").no(err)
	r.in("restored").no(c.Restore(ctx, back))
}

// emptied moves accounts that count nothing, as all that they were charged came back or has ended,
// with a pause and without: from the counter itself and from one in memory.
func emptied(r *run) {
	c, ok := r.archive()
	if !ok {
		return
	}
	n := 0
	limits := []storeless.Limit{calendar(1, "day", "UTC")}
	for algorithm := range storeless.RollingDay + 1 {
		l := storeless.Limit{Algorithm: algorithm, Quota: 1, Window: time.Second}
		if algorithm == storeless.RollingDay {
			l.Window = 24 * time.Hour
		}
		limits = append(limits, l)
	}
	for _, l := range limits {
		p := policy(l)
		for _, from := range []engine.Archive{c, memory.New(0, r.clock.Now)} {
			for _, is := range []struct{ back, paused bool }{{true, false}, {true, true}, {false, true}} {
				n++
				r.in("%v %s, from %T, given back: %t, paused: %t", l.Algorithm, l.Calendar, from, is.back, is.paused).movesEmpty(c, from, p, r.key(n), is.back, is.paused)
			}
		}
	}
}

// movesEmpty moves an account that was charged once, and counts nothing.
func (r *run) movesEmpty(c, from engine.Archive, p *exact.Policy, key string, back, paused bool) {
	ctx, there := context.Background(), *r
	there.Counter = from
	v := there.take(p, key, 1)
	if back {
		there.back(v.Receipt)
	} else {
		r.clock.Advance(2*p.Limit(0).Window + time.Second)
	}
	if paused {
		there.call(exact.Call{Key: key, Policy: p, Pause: time.Minute})
	}
	name := p.AccountName(key)
	out, err := recordOf(from, name)
	if errors.Is(err, errUnlisted) && !paused {
		return
	}
	r.no(err)
	r.no(c.Forget(ctx, name))
	r.no(c.Restore(ctx, out))
	r.in("given back").gone(v.Receipt)
	if paused {
		_, err := recordOf(c, name)
		r.no(err)
		r.want(p, key, 1, false)
	}
	r.back(r.call(exact.Call{Key: key, Cost: 2, Policy: p, Past: true}).Receipt)
	if !paused {
		r.want(p, key, 1, true, 0)
	}
}

var errFound, errUnlisted = errors.New("found"), errors.New("an account that counts is not listed")

// recordOf returns the record of a name.
func recordOf(c engine.Archive, name string) (found engine.Record, err error) {
	err = c.Each(context.Background(), func(r engine.Record) error {
		if r.Name != name {
			return nil
		}
		found = r
		return errFound
	})
	if err == nil {
		err = errUnlisted
	} else if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// forgotten checks that Forget forgets one account, whole, and no other.
func forgotten(r *run) {
	c, ok := r.Counter.(engine.Archive)
	if !ok {
		return
	}
	ctx, p := context.Background(), policy(each(5)...)
	for n := range 3 {
		r.want(p, r.key(n), 5, true)
	}
	old := r.call(exact.Call{Key: r.key(1), Cost: 1, Policy: p, Past: true})
	r.call(exact.Call{Key: r.key(1), Policy: p, Pause: exact.MaxPause})
	r.in("one that was never counted").no(c.Forget(ctx, p.AccountName(r.key(3))))
	r.no(c.Forget(ctx, p.AccountName(r.key(1))))
	r.in("a receipt of what was forgotten").gone(old.Receipt)
	for n, admitted := range []bool{false, true, false} {
		r.in("key %d", n).want(p, r.key(n), 5, admitted)
	}
	r.in("a receipt of the account before").gone(old.Receipt)
}
