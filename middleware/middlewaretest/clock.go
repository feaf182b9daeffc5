// SPDX-License-Identifier: Apache-2.0

package middlewaretest

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// A Clock is moved by hand. Its method Now is for Config.Now. It is safe for concurrent use.
type Clock struct {
	start  time.Time
	offset atomic.Int64
}

// NewClock returns a clock that stands still. It stands where all windows begin that divide
// a day, always at the same moment.
func NewClock() *Clock { return &Clock{start: time.Unix(20_000*86_400, 0)} }

// Now returns the time.
func (c *Clock) Now() time.Time { return c.start.Add(time.Duration(c.offset.Load())) }

// Advance moves the clock, back if by is negative.
func (c *Clock) Advance(by time.Duration) { c.offset.Add(int64(by)) }

// Wait moves the clock as far as the Retry-After of a refusal says, and returns how far that
// was. The test fails if there is none in whole seconds.
func (c *Clock) Wait(t testing.TB, refusal *http.Response) time.Duration {
	t.Helper()
	seconds, err := strconv.ParseUint(refusal.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		t.Fatalf("middlewaretest: the Retry-After of this response (%s) is %q", refusal.Status, refusal.Header.Get("Retry-After"))
	}
	wait := time.Duration(seconds) * time.Second
	c.Advance(wait)
	return wait
}
