// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// What is true of a tally, as only somebody knows who sees all instances. It is kept by
// arithmetic of its own: a mistake of package limiter must not excuse itself.
type truth struct {
	admitted [3]uint8 // by the window that was charged; of a bucket all, in the first
	mark     int32    // of a bucket, in tenths of a second since base
}

func (t *truth) appendTo(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(b, t.admitted[:]...), uint32(t.mark))
}

const tenth = 100 * time.Millisecond

// index returns where a window is counted.
func (w *compiled) index(s limiter.State) int { return int(s.At - w.first) }

// window returns the number of the window that a clock is in.
func (w *compiled) windowAt(clock time.Duration) int64 {
	return base.Add(clock).Unix() / int64(w.window/time.Second)
}

// charge notes what was admitted: after is the tally of the answer.
func (w *compiled) charge(f int, t *truth, clock time.Duration, after limiter.State) {
	if w.bucket() {
		t.admitted[0]++
		t.mark = max(t.mark, int32(clock/tenth)) + int32(w.interval[f]/tenth)
		return
	}
	t.admitted[w.index(after)]++
}

// state returns what is true in the window of s.
func (w *compiled) state(f int, t *truth, s limiter.State) limiter.State {
	if w.bucket() {
		return limiter.State{At: base.Add(time.Duration(t.mark) * tenth).UnixMicro()}
	}
	i, all := w.index(s), limiter.State{At: s.At}
	if w.lasting(f) {
		for _, n := range t.admitted {
			all.Cur += uint32(n)
		}
		return all
	}
	all.Cur = uint32(t.admitted[i])
	if i > 0 && w.Limit.Algorithm != storeless.FixedWindow {
		all.Prev = uint32(t.admitted[i-1])
	}
	return all
}

// room reports whether s has room for so many requests more.
func (w *compiled) room(f int, clock time.Duration, s limiter.State, more int64) bool {
	now := base.Add(clock)
	if w.bucket() {
		debt := max(0, time.UnixMicro(s.At).Sub(now))
		return debt+time.Duration(more)*w.interval[f] <= time.Duration(w.quota[f])*w.interval[f]
	}
	width := w.window.Milliseconds()
	passed := max(0, now.UnixMilli()-s.At*width)
	weight := width - passed
	return int64(s.Prev)*weight+(int64(s.Cur)+more)*width <= w.quota[f]*width
}

// below reports whether s says no more than truth, number by number.
func (w *compiled) below(s, truth limiter.State) bool {
	if w.bucket() {
		return s.At <= truth.At
	}
	return s.Cur <= truth.Cur && s.Prev <= truth.Prev
}
