package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
)

// errEvicts says what is wrong with a server.
var errEvicts = errors.New("the server evicts keys when its memory is full, and so gives away quotas: set maxmemory-policy to noeviction, or DangerouslyAllowEviction")

// A line is a client that is there when it is needed: it is dialed by the first call,
// and dialed anew where the server has become another's replica, whose name may lead to
// the master by now.
type line struct {
	dial   func() (rueidis.Client, error)
	evicts bool // may evict

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
			go l.connect()
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

// connect makes one attempt. The dialer's own timeout ends it.
func (l *line) connect() {
	client, err := l.dial()
	if err == nil && !l.evicts {
		err = inspect(client)
		if err != nil {
			client.Close()
		}
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

// inspect asks every node whether it would evict keys. A server that does not say is
// taken at its word.
func inspect(client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, node := range client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			continue
		}
		about := make(map[string]string)
		for field := range strings.SplitSeq(info, "\r\n") {
			name, value, _ := strings.Cut(field, ":")
			about[name] = value
		}
		if policy := about["maxmemory_policy"]; about["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
			return errEvicts
		}
	}
	return nil
}

// failed hears of an error that a client has had. A server that has become a replica
// will go on refusing on this connection: at most once a second another is made.
func (l *line) failed(client rueidis.Client, err error) {
	if said, ok := rueidis.IsRedisErr(err); !ok || !begins(said.Error(), "READONLY") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != client || time.Since(l.dialed) < time.Second {
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
