package guardedcall

import (
	"sync/atomic"
	"time"
)

const (
	// breakAfter failures in a row open the breaker. One is an accident, and at
	// two of three the third may still be the same lost packet.
	breakAfter = 5

	// breakPause is for how long an open breaker lets nobody through, and then
	// how far its probes lie apart. It does not grow: a probe a second costs an
	// engine nothing, and a long pause would prolong every outage.
	breakPause = time.Second
)

// A breaker keeps calls away from a counter that fails, so that an outage costs
// every request a glance and not a deadline. While it is open one call in every
// breakPause goes through, a probe, and closes it by coming back. It needs no
// timer and no goroutine, and takes no lock: where nothing fails, nothing is
// written.
type breaker struct {
	failures atomic.Int32 // in a row
	until    atomic.Int64 // of the next probe, in µs since 1970; 0: closed
}

// admits reports whether a call may be made now. It must be followed by
// succeeded or failed.
func (b *breaker) admits(now time.Time) bool {
	until := b.until.Load()
	if until == 0 {
		return true
	}
	us, pause := now.UnixMicro(), breakPause.Microseconds()
	// Further ahead than a pause is the mark of a clock that has stepped back.
	if us < until && until <= us+pause {
		return false
	}
	return b.until.CompareAndSwap(until, us+pause) // who wins is the probe
}

// open reports whether the breaker is open.
func (b *breaker) open() bool { return b.until.Load() != 0 }

// succeeded notes that a call came back, which closes the breaker.
func (b *breaker) succeeded() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
	if until := b.until.Load(); until != 0 {
		b.until.CompareAndSwap(until, 0)
	}
}

// failed notes that a call failed, which may open the breaker.
func (b *breaker) failed(now time.Time) {
	if b.failures.Add(1) >= breakAfter {
		b.until.CompareAndSwap(0, max(1, now.Add(breakPause).UnixMicro()))
	}
}
