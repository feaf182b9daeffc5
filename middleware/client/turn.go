// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
)

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
