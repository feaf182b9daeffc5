// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A connection provides a client: it is dialed ahead or by the first call. It is dialed anew when
// the server has become a replica: its name may lead to the new master by now.
type connection struct {
	dial func() (rueidis.Client, error)
	watch

	mu      sync.Mutex
	client  rueidis.Client
	dialing chan struct{} // closed when an attempt is over; nil: there is none
	err     error         // of the last attempt
	dialed  time.Time
	closed  bool
}

// get returns the client, or waits for one as long as ctx lets it.
func (c *connection) get(ctx context.Context) (rueidis.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := true; c.client == nil || c.closed; first = false {
		if c.closed {
			return nil, ErrStopped
		}
		if !first && c.err != nil {
			return nil, fmt.Errorf("%w: redis: %w", exact.ErrNotCounted, c.err)
		}
		if c.dialing == nil {
			c.dialing = make(chan struct{})
			go c.connect(false)
		}
		wait := c.dialing
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%w: redis: connecting: %w", exact.ErrNotCounted, err)
		}
	}
	return c.client, nil
}

// ahead makes the first attempt before a call waits for it.
func (c *connection) ahead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing = make(chan struct{})
	go c.connect(true)
}

// connect makes one attempt. The dialer's own timeout ends it. An attempt made ahead logs its
// failure; calls report other failures.
func (c *connection) connect(ahead bool) {
	client, err := c.dial()
	if err == nil {
		if err = c.inspect(client); err != nil {
			client.Close()
		}
	}
	if ahead && err != nil && !errors.Is(err, errEvicts) { // which is told already
		c.alarms.away(err)
	}
	c.mu.Lock()
	c.err, c.dialed = err, time.Now()
	late := err == nil && c.closed
	if err == nil && !late {
		c.client = client
	}
	close(c.dialing)
	c.dialing = nil
	c.mu.Unlock()
	if late {
		client.Close()
	}
}

// failed hears of an error that a client has had. A server that has become a replica
// will go on refusing on this connection: at most once a second another is made.
func (c *connection) failed(client rueidis.Client, err error) {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		c.anew() // it may be another connection by now
	} else if begins(said.Error(), "READONLY") {
		c.drop(client, time.Second)
	}
}

// refresh asks, when due, whether the server evicts. A server that does counts as
// unreachable until it stops. refresh runs in the goroutine of a call whose caller has
// its answer.
func (c *connection) refresh(client rueidis.Client) {
	if c.due() {
		c.ask(client)
	}
}

// ask asks whether the server evicts.
func (c *connection) ask(client rueidis.Client) {
	if c.inspect(client) != nil {
		c.drop(client, 0)
	}
}

// drop lets the next call dial anew, if the client has the age.
func (c *connection) drop(client rueidis.Client, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != client || time.Since(c.dialed) < age {
		return
	}
	c.client = nil
	// Its callers still wait for answers: they have a second.
	time.AfterFunc(time.Second, client.Close)
}

func (c *connection) close() {
	c.mu.Lock()
	client := c.client
	c.closed, c.client = true, nil
	c.mu.Unlock()
	if client != nil {
		client.Close() // waits for what is on its way, for a second
	}
}
