// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errTooLong = errors.New("too long")

// A permit is given back once, whoever does it first.
func TestAPermitIsGivenBackOnce(t *testing.T) {
	freed := 0
	p := NewPermit(func() { freed++ })
	p.Done()
	p.Done()
	require.Equal(t, 1, freed)
	(*Permit)(nil).Done()
}

// What is released as well is released with the permit, and after it.
func TestAPermitReleasesAll(t *testing.T) {
	var freed []int
	p := NewPermit(func() { freed = append(freed, 1) })
	p.Also(func() { freed = append(freed, 2) })
	p.Also(func() { freed = append(freed, 3) })
	p.Done()
	p.Done()
	require.Equal(t, []int{1, 2, 3}, freed)
}

// A connection that was taken over keeps the permit, until it is closed or its time is over,
// though the context of the request has long ended.
func TestAConnectionKeepsItsPermit(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var freed atomic.Int64
			p := NewPermit(func() { freed.Add(1) })
			request, cancel := context.WithCancel(t.Context())
			ctx := p.EndAfter(request, 30*time.Second, errTooLong)
			ours, theirs := net.Pipe()
			conn := p.TakenOver(ours)
			p.Done()
			cancel()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), context.Canceled)
			time.Sleep(29 * time.Second)
			require.Zero(t, freed.Load())
			if closed {
				require.NoError(t, conn.Close())
				require.EqualValues(t, 1, freed.Load())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.EqualValues(t, 1, freed.Load())
			_, err := theirs.Read(make([]byte, 1))
			require.Error(t, err, "it is closed")
		})
	}
}

func TestARequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPermit(func() {})
		ctx := p.EndAfter(t.Context(), 30*time.Second, errTooLong)
		began := time.Now()
		<-ctx.Done()
		require.Equal(t, 30*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(ctx), errTooLong)
		p.Done()
	})
}
