// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// What a request may cost, for each 16 KB that its client has begun to send: what 20 ordinary
// ones allocate without a token. What counts of bytes is that they are so many times those that
// were sent, whatever is in them.
const (
	mostAllocations = 20 * 3
	mostTimesSent   = 6
	mostBytes       = 40 << 10
)

// No request is a weapon: none is answered with more than twice its bytes and 16 KB, nor
// allocates more than its share.
func TestDear(t *testing.T) {
	for _, d := range dearRequests(t) {
		t.Run(d.name, func(t *testing.T) {
			m := newMeasured(t, d)
			require.LessOrEqual(t, m.answered, 2*m.sent+begun)
			if testkit.Race {
				return // it allocates on its own
			}
			n, size := testing.AllocsPerRun(20, m.send), allocated(m.send)
			t.Logf("%d bytes, answered with %d: %.0f allocations, %d bytes", m.sent, m.answered, n, size)
			require.LessOrEqual(t, int(n), mostAllocations*m.pieces())
			require.LessOrEqual(t, int(size), mostTimesSent*m.sent+mostBytes)
		})
	}
}

// BenchmarkDear has what they cost: times an ordinary POST that is allowed, in the same run, for
// each 16 KB begun. At most 20.
func BenchmarkDear(b *testing.B) {
	ordinary := newMeasured(b, dear{cfg: open(), options: []option{showing(earned(b, open()))}})
	for _, d := range dearRequests(b) {
		b.Run(d.name, func(b *testing.B) {
			m := newMeasured(b, d)
			b.ReportAllocs()
			for b.Loop() {
				m.send()
			}
			one, each := time.Hour, time.Hour
			for range 300 {
				one, each = min(one, took(ordinary.send)), min(each, took(m.send))
			}
			b.ReportMetric(float64(each)/float64(one)/float64(m.pieces()), "ordinary/16KB")
			b.ReportMetric(float64(m.sent), "sent")
			b.ReportMetric(float64(m.answered), "answered")
		})
	}
}

// took returns how long f takes, of as many times as take a moment: so short that on a busy
// machine some of them are not interrupted.
func took(f func()) time.Duration {
	const least = 200 * time.Microsecond
	began, n := time.Now(), time.Duration(0)
	for n == 0 || time.Since(began) < least {
		f()
		n++
	}
	return time.Since(began) / n
}
