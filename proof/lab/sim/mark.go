// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A mark is what one client was ever admitted, as one limit sees it. Its arithmetic is written
// here once more, from the documentation of the algorithms, so that a fault in that of package
// limiter is seen.
type mark struct {
	at        int64 // of windows the number of the last, of buckets when it is empty again, in µs
	cur, prev int32
}

// room says whether one more may pass a limit at a time.
func (m *mark) room(l *storeless.Limit, now time.Time) bool {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if l.Algorithm == storeless.TokenBucket {
		step := (w + l.Quota - 1) / l.Quota
		return max(m.at, us)+step-us <= l.Burst*step
	}
	m.roll(us / w)
	return int64(m.prev)*(w-us%w)+int64(m.cur+1)*w <= l.Quota*w
}

// count counts one that has passed.
func (m *mark) count(l *storeless.Limit, now time.Time) {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if l.Algorithm == storeless.TokenBucket {
		m.at = max(m.at, us) + (w+l.Quota-1)/l.Quota
		return
	}
	m.roll(us / w)
	m.cur++
}

func (m *mark) roll(window int64) {
	switch {
	case window == m.at+1:
		m.prev, m.cur = m.cur, 0
	case window > m.at+1:
		m.prev, m.cur = 0, 0
	}
	m.at = window
}
