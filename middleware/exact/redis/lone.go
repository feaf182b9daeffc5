// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A lone is a connection for a lone call. The call writes and reads in its own goroutine: on the
// shared connection a writer and a reader goroutine take as long as the server does. The shared
// connection stays: many calls are better off together, and a call that meets its deadline here
// closes this one.
//
// No call waits until it is made: calls take the shared connection meanwhile.
type lone struct {
	taken atomic.Bool

	// Guarded by taken.
	client rueidis.Client // whose connection it is; nil: there is none
	used   time.Time      // when it last answered
	tried  time.Time      // when one was last made
}

// fresh is how long an idle connection is trusted to be open. A closed one costs a call
// its answer; the client does not check it, as it does the shared one.
const fresh = time.Second

// try takes the connection for a call, if it is there and no other call has it, and the call
// can be left waiting for its deadline: nothing else ends it.
func (l *lone) try(ctx context.Context, client rueidis.Client) bool {
	end, bounded := ctx.Deadline()
	if bounded && time.Until(end) > time.Second || !bounded && ctx.Done() != nil {
		return false
	}
	if !l.taken.CompareAndSwap(false, true) {
		return false
	}
	now := time.Now()
	if l.client == client && now.Sub(l.used) < fresh {
		return true
	}
	if now.Sub(l.tried) < fresh {
		l.taken.Store(false)
		return false
	}
	l.tried = now
	go func() {
		defer l.taken.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = l.do(ctx, client, client.B().Time().Build()) // any answer will do
	}()
	return false
}

// do makes a call on the connection that was taken, or on one that is made for it. The
// answer is a string.
func (l *lone) do(ctx context.Context, client rueidis.Client, cmd rueidis.Completed) (string, error) {
	stream := client.DoStream(ctx, cmd)
	var said strings.Builder
	_, err := stream.WriteTo(&said)
	l.client = nil
	if stream.Error() == io.EOF { // it was read to its end, and the connection is good
		l.client, l.used = client, time.Now()
	}
	return said.String(), err
}
