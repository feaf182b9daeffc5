package client

import (
	"context"
	"sync"
)

// want is what a challenge is for: requests that want the same can pay together.
type want struct {
	origin string
	kind   uint64
}

// purchases lets requests that want the same buy it once. The zero value is
// empty; it holds what is under way and nothing else.
type purchases struct {
	mu    sync.Mutex
	going map[want]*purchase
}

// purchase is one request buying while others wait.
type purchase struct {
	of   want
	done chan struct{} // closed at the end
	paid bool          // the proof was accepted; to be read after the end
}

// join returns the purchase under way, or starts one, which the caller must end.
func (p *purchases) join(w want) (b *purchase, starts bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.going[w]; b != nil {
		return b, false
	}
	if p.going == nil {
		p.going = make(map[want]*purchase)
	}
	b = &purchase{of: w, done: make(chan struct{})}
	p.going[w] = b
	return b, true
}

// end wakes those who wait. If nothing was paid, one of them starts the next.
func (p *purchases) end(b *purchase, paid bool) {
	p.mu.Lock()
	delete(p.going, b.of)
	p.mu.Unlock()
	b.paid = paid
	close(b.done)
}

// turn is a mutex that a context can give up on. The zero value is free.
type turn struct {
	once sync.Once
	held chan struct{}
}

func (t *turn) take(ctx context.Context) error {
	t.once.Do(func() { t.held = make(chan struct{}, 1) })
	if err := ctx.Err(); err != nil {
		return err // select would toss a coin
	}
	select {
	case t.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) pass() { <-t.held }
