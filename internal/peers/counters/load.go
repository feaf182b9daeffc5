// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

type load struct {
	keys    []string
	callers int // each has one call at a time
}

type sample struct {
	histogram
	wall, client, server time.Duration // processor time of both; negative: it cannot be told
}

// The phases of a slice.
const (
	warming int32 = iota
	counting
	ended
)

// A caller asks, and counts what it was answered.
type caller struct {
	histogram
	answers atomic.Uint64 // while counting
	err     error
	_       [64]byte // the next one's are on another line of the cache
}

// slice asks for so long, after a sixth of it that does not count, and for longer where
// not every caller could have had an answer, or the server has used no processor: on a busy
// machine answers may come that it had given before, and its clock goes on when it is
// scheduled. No time at all would be no figure: readers of benchmarks leave it out.
func (l load) slice(o *Opened, long time.Duration) (*sample, error) {
	runtime.GC() // of what came before
	var phase atomic.Int32
	callers := make([]caller, l.callers)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() { callers[c].err = callers[c].ask(o, l, c, &phase) })
	}
	time.Sleep(long / 6)
	s := new(sample)
	client, server := usedBy(o)
	began := time.Now()
	phase.CompareAndSwap(warming, counting) // unless a call has failed
	for {
		time.Sleep(long)
		var answers uint64
		for c := range callers {
			answers += callers[c].answers.Load()
		}
		_, serverNow := usedBy(o)
		if answers >= uint64(l.callers) && (server < 0 || serverNow != server) || phase.Load() == ended {
			break
		}
	}
	phase.Store(ended)
	s.wall = time.Since(began)
	clientAfter, serverAfter := usedBy(o)
	s.client, s.server = spent(client, clientAfter), spent(server, serverAfter)
	group.Wait()
	for c := range callers {
		if callers[c].err != nil {
			return nil, callers[c].err
		}
		s.merge(&callers[c].histogram)
	}
	return s, nil
}

// ask asks until the slice has ended, for other keys than the next caller at a time. The
// end of a call is the begin of the next.
func (c *caller) ask(o *Opened, l load, number int, phase *atomic.Int32) error {
	last := time.Now()
	for i := number; ; i += l.callers {
		passed, err := o.Take(l.keys[i*7919%len(l.keys)])
		if err != nil || !passed {
			phase.Store(ended)
			return fmt.Errorf("a call that must pass: passed is %t, error %w", passed, err)
		}
		now := time.Now()
		switch phase.Load() {
		case counting:
			c.add(now.Sub(last))
			c.answers.Add(1)
		case ended:
			return nil
		}
		last = now
	}
}

// usedBy returns the processor times of this process and of a counter's server;
// negative ones where they cannot be told.
func usedBy(o *Opened) (client, server time.Duration) {
	client, err := processorTime(0)
	if err != nil {
		client = -1
	}
	server = -1
	if o.Server != nil {
		if server, err = o.Server.CPU(); err != nil {
			server = -1
		}
	}
	return client, server
}

func spent(before, after time.Duration) time.Duration {
	if before < 0 || after < 0 {
		return -1
	}
	return after - before
}

// first takes one for each key, by as many callers as there are at most.
func first(o *Opened, keys []string, callers int) error {
	take := o.First
	if take == nil {
		take = o.Take
	}
	var group sync.WaitGroup
	errs := make([]error, callers)
	for c := range callers {
		group.Go(func() {
			for i := c; i < len(keys); i += callers {
				if passed, err := take(keys[i]); err != nil || !passed {
					errs[c] = fmt.Errorf("the first call for a key: passed is %t, error %w", passed, err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
