// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/internal/faults/front"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
)

// A mended counter is opened anew where it has stopped, as its users do.
type mended struct {
	t    *testing.T
	disk *memDisk
	now  atomic.Pointer[file.Counter]
}

// again closes the counter, if there is one, and opens another.
func (m *mended) again() {
	if c := m.now.Swap(nil); c != nil {
		require.NoError(m.t, c.Close())
	}
	m.now.Store(openOn(m.t, m.disk, 1<<30, file.Config{}))
}

func (m *mended) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return m.now.Load().Take(ctx, call)
}

func (m *mended) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return m.now.Load().Peek(ctx, call)
}

func (m *mended) Refund(ctx context.Context, r exact.Receipt) error {
	return m.now.Load().Refund(ctx, r)
}

// What befalls a disk in the middle of a load, and passes. Where the counter stops for good it is opened anew.
func TestFaults(t *testing.T) {
	m := &mended{t: t, disk: newMemDisk()}
	d := m.disk
	var hangs atomic.Pointer[chan struct{}] // until it is closed
	d.syncs = func() {
		time.Sleep(200 * time.Microsecond)
		if c := hangs.Load(); c != nil {
			<-*c
		}
	}
	move := func(from, to string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.names[to] = d.names[from]
		delete(d.names, from)
	}
	m.again()
	hang := faults.Fault{Name: "a sync hangs", Strike: func() {
		c := make(chan struct{})
		hangs.Store(&c)
	}, Heal: func() { close(*hangs.Swap(nil)) }}
	all := []faults.Fault{hang}
	for _, f := range []struct {
		name, op string
		err      error
	}{
		{"full in mid-write", "write", syscall.ENOSPC},
		{"a quota of the disk", "write", syscall.EDQUOT},
		{"a sync fails", "sync", syscall.EIO},
		{"a sync fails, it is full", "sync", syscall.ENOSPC},
		{"a write fails", "write", syscall.EIO},
	} {
		all = append(all, faults.Fault{Name: f.name, Strike: func() { d.fails(f.op, f.err) }, Heal: func() {
			d.fails("", nil)
			m.again()
		}, Forgets: true})
	}
	all = append(all, faults.Fault{Name: "the file is renamed", Strike: func() { move(memPath, memPath+".away") }, Heal: func() {
		move(memPath+".away", memPath)
		m.again()
	}, Forgets: true})
	faults.AmidALoad(t, all, 50*time.Millisecond, func(*testing.T) exact.Counter { return m })
	front.Of(t, m, []faults.Fault{hang})
}
