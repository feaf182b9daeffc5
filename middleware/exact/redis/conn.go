// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A line is a client that is there when it is needed: it is dialed ahead or by the first call,
// and dialed anew where the server has become another's replica, whose name may lead to
// the master by now.
type line struct {
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
func (l *line) get(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for first := true; l.client == nil || l.closed; first = false {
		if l.closed {
			return nil, ErrStopped
		}
		if !first && l.err != nil {
			return nil, fmt.Errorf("%w: redis: %w", exact.ErrNotCounted, l.err)
		}
		if l.dialing == nil {
			l.dialing = make(chan struct{})
			go l.connect(false)
		}
		wait := l.dialing
		l.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%w: redis: connecting: %w", exact.ErrNotCounted, err)
		}
	}
	return l.client, nil
}

// ahead makes the first attempt before a call waits for it.
func (l *line) ahead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialing = make(chan struct{})
	go l.connect(true)
}

// connect makes one attempt. The dialer's own timeout ends it. One that is made ahead tells if it
// fails; of others the calls tell.
func (l *line) connect(ahead bool) {
	client, err := l.dial()
	if err == nil {
		if err = l.inspect(client); err != nil {
			client.Close()
		}
	}
	if ahead && err != nil && !errors.Is(err, errEvicts) { // which is told already
		l.alarms.away(err)
	}
	l.mu.Lock()
	l.err, l.dialed = err, time.Now()
	late := err == nil && l.closed
	if err == nil && !late {
		l.client = client
	}
	close(l.dialing)
	l.dialing = nil
	l.mu.Unlock()
	if late {
		client.Close()
	}
}

// failed hears of an error that a client has had. A server that has become a replica
// will go on refusing on this connection: at most once a second another is made.
func (l *line) failed(client rueidis.Client, err error) {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		l.anew() // it may be another connection by now
	} else if begins(said.Error(), "READONLY") {
		l.drop(client, time.Second)
	}
}

// refresh asks whether the server evicts, if it is time. One that does is as if it could
// not be connected to, until it does no more. It runs in the goroutine of a call whose
// caller has its answer.
func (l *line) refresh(client rueidis.Client) {
	if l.due() {
		l.ask(client)
	}
}

// ask asks whether the server evicts.
func (l *line) ask(client rueidis.Client) {
	if l.inspect(client) != nil {
		l.drop(client, 0)
	}
}

// drop has the next call dial anew, if the client is so old.
func (l *line) drop(client rueidis.Client, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != client || time.Since(l.dialed) < age {
		return
	}
	l.client = nil
	// Those who have it still wait for answers: they have a second.
	time.AfterFunc(time.Second, client.Close)
}

func (l *line) close() {
	l.mu.Lock()
	client := l.client
	l.closed, l.client = true, nil
	l.mu.Unlock()
	if client != nil {
		client.Close() // waits for what is on its way, for a second
	}
}

// notSent reports whether an error says that nothing has left this machine.
func notSent(err error) bool {
	var op *net.OpError
	// Not ErrClosing: commands that are on their way when a client closes get it too.
	return errors.Is(err, rueidis.ErrNoSlot) || errors.Is(err, rueidis.ErrNoAddr) ||
		errors.As(err, &op) && op.Op == "dial"
}
