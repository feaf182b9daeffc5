// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Counter is the type that Open returns.
type Counter = counter

// OpenByKey is Open, but the scripts use a clock in a key of the server: a test cannot
// set the clock of a machine.
func OpenByKey(url string, cfg Config) (*Counter, error) {
	opened, err := Open(url, cfg)
	if err != nil {
		return nil, err
	}
	c := opened.(*counter)
	if text := c.engine.scripts.write("take", form{shape: shape{'S'}}); strings.Count(text, "redis.call('TIME')") != 1 {
		panic("the clock is read in another way")
	}
	c.engine.scripts.clock = "redis.call('HMGET', 'clock', 's', 'us')"
	return c, nil
}

// Engine is what a Counter merges calls for.
func (c *counter) Engine() engine.Batcher { return c.engine }

// Tried waits for the attempt to connect that is under way, and reports whether there was one.
func (c *counter) Tried() bool {
	conn := &c.engine.connection
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if wait := conn.dialing; wait != nil {
		conn.mu.Unlock()
		<-wait
		conn.mu.Lock()
	}
	return !conn.dialed.IsZero()
}

// AskEvery has a counter ask so often whether its server evicts keys.
func (c *counter) AskEvery(every time.Duration) { c.engine.connection.every = every }

// Account is the key of an account.
func (c *counter) Account(p *exact.Policy, key string) string { return c.engine.tag(p, key) }

// LoneID returns the server's number of the connection for lone calls, where there is one
// that no call has.
func (c *counter) LoneID() (id string, ok bool) {
	l := &c.engine.nodes[0].lone
	if !l.taken.CompareAndSwap(false, true) {
		return "", false
	}
	defer l.taken.Store(false)
	if l.client == nil {
		return "", false
	}
	id, err := l.do(context.Background(), l.client, l.client.B().ClientId().Build())
	return id, err == nil
}
