// SPDX-License-Identifier: Apache-2.0

package storeless_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
)

// A decision leaves nothing for the garbage collector.
func TestAllocations(t *testing.T) {
	l, now, tally := fiveAMinute(t), noon, storeless.Tally{}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Second)
		shown, _ := l.Take(now, "a tenant of some name", tally, 1)
		l.Peek(now, "a tenant of some name", shown, 1)
		tally = l.Refund(now, now, "a tenant of some name", shown, 1)
	}))
}

func BenchmarkTake(b *testing.B) {
	l, err := storeless.New(storeless.Config{Policy: "jobs", Limits: []storeless.Limit{{Quota: 1 << 30, Window: time.Minute}}})
	require.NoError(b, err)
	var tally storeless.Tally
	for b.Loop() {
		tally, _ = l.Take(noon, "acme", tally, 1)
	}
}
