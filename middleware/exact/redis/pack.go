// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// numbers appends the numbers of a policy's limits: for each its id, what it is charged, and the numbers of
// its kind; times in µs. Windows of the calendar are those around a moment.
func numbers(packed []byte, p *exact.Policy, each *costs, at time.Time) []byte {
	for i := range p.Len() {
		l := p.Limit(i)
		packed = pack(binary.LittleEndian.AppendUint32(packed, p.ID(i)), each[i])
		window, plan := l.Window.Microseconds(), p.Plan()
		switch {
		case plan.Calendars[i] != nil:
			start, end := plan.Calendars[i].Around(at)
			packed = pack(packed, l.Quota, start.UnixMicro(), end.UnixMicro())
		case plan.Interval[i] > 0:
			packed = pack(packed, plan.Interval[i], plan.Empties[i], window)
		case l.Algorithm == storeless.RollingDay:
			packed = pack(packed, l.Quota, 0)
		default:
			packed = pack(packed, l.Quota, window)
		}
	}
	return packed
}

// Costs are what each limit is charged.
type costs [storeless.MaxLimits]int64

// costsOf returns what a call or receipt has each limit charged, and how many serials that takes: one, or one for each limit.
func costsOf(p *exact.Policy, cost int64, own costs) (each costs, serials int64) {
	if own != (costs{}) {
		return own, int64(p.Len())
	}
	for i := range each {
		each[i] = cost
	}
	return each, 1
}

// hold is for how long an account stands still where a clock has stepped back, in µs, see
// [engine.Account].
func hold(p *exact.Policy) int64 { return p.Plan().Hold / 1000 }

// pack appends numbers as scripts read them.
func pack(packed []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(float64(n)))
	}
	return packed
}

// A reply reads numbers that a script has packed, until one is missing.
type reply struct {
	rest  string
	short bool
}

// double reads a double that is a whole number.
func (r *reply) double() int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64(r.bytes(8))))
}

func (r *reply) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }

func (r *reply) uint16() uint16 { return binary.LittleEndian.Uint16(r.bytes(2)) }

func (r *reply) byte() byte { return r.bytes(1)[0] }

// bytes reads n bytes, or zeros.
func (r *reply) bytes(n int) []byte {
	b := make([]byte, 8)[:n]
	if len(r.rest) < n {
		r.rest, r.short = "", true
		return b
	}
	copy(b, r.rest)
	r.rest = r.rest[n:]
	return b
}

var errReply = errors.New("redis: the script answers what it should not; is another version of this package counting on this server?")

// whole says what is wrong with a reply that was read, if anything is.
func (r *reply) whole() error {
	if r.short || len(r.rest) > 0 {
		return fmt.Errorf("%w: %w", exact.ErrMaybeCounted, errReply)
	}
	return nil
}
