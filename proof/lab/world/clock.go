// SPDX-License-Identifier: Apache-2.0

package world

import (
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/lab/house"
)

// window is the length of every window here, in seconds, and middle is where in it a round
// begins: far enough from both ends that clocks which disagree as they may are in one window.
const (
	window = 60
	middle = 20
)

// clocks are those of the instances, by which they decide. They are moved by hand between rounds: so what
// is admitted hangs on counts, and not on how fast the machine is.
type clocks struct {
	house *house.Cluster
	right atomic.Int64 // Unix seconds
	exact int64        // seconds: the window of the exact routes
	first int64        // the moment of it in which right begins
}

// exactWindow returns the window of the exact routes. Redis goes by its own clock, which says now:
// so the window is longer than any run, and now is in the middle of one. With one length for
// all, a run that crosses the end of such a window would find its charges gone.
func exactWindow(now time.Time) time.Duration {
	const most = 365 * 24 * 60 * 60
	whole := (2*now.Unix()/most + 1) / 2 // and a half have passed
	return time.Duration(2*now.Unix()/(2*whole+1)/window*window) * time.Second
}

// newClocks returns clocks that begin in the middle of a window of the exact routes, in or about 2026.
func newClocks(exact time.Duration) *clocks {
	c := &clocks{exact: int64(exact / time.Second)}
	c.first = c.exact/2/window*window + middle
	c.right.Store(time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC).Unix()/c.exact*c.exact + c.first)
	return c
}

// move puts the true time forward, and all clocks right.
func (c *clocks) move(seconds int64) error {
	c.right.Add(seconds)
	if c.house == nil {
		return nil
	}
	c.house.Clock = c.right.Load()
	return c.house.Advance(0)
}

// pass puts the true time forward until all tokens have ended, those of the exact routes too, and
// again into the middle of a window of theirs: no cycle may see two of them.
func (c *clocks) pass() error {
	return c.move(3*c.exact + c.first - c.right.Load()%c.exact)
}

// set has the clock of one instance differ from the true time.
func (c *clocks) set(instance int, ahead int64) error {
	return c.house.Set(instance, c.right.Load()+ahead)
}
