// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A Counter counts at owners that serve a counter ([Serve]). It is an [exact.Parted]: an
// owner that hangs is an outage for its own keys alone. It is safe for concurrent use.
type Counter struct {
	merged exact.Counter
	engine *engine
	idle   interface{ CloseIdleConnections() } // nil if the transport is not its own
}

// Open returns a counter that calls the owners of these URLs, each http or https. Every key
// has one owner: every process must have the same list, in any order. Nobody is called
// yet. It reports all problems of owners and cfg, each a [storeless.ConfigError].
func Open(owners []string, cfg Config) (*Counter, error) {
	errs := cfg.check()
	if len(owners) == 0 {
		errs = append(errs, &storeless.ConfigError{Field: "owners", Problem: "must be at least one URL"})
	}
	for i, owner := range owners {
		field := fmt.Sprintf("owners[%d]", i)
		if u, err := url.Parse(owner); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			errs = append(errs, &storeless.ConfigError{Field: field, Problem: "must be an http or https URL, without a user"})
		}
		for j := range i {
			if owners[j] == owner {
				errs = append(errs, &storeless.ConfigError{Field: field, Problem: fmt.Sprintf("is the same as owners[%d]", j)})
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c := &Counter{engine: &engine{keys: newRing(cfg.Secrets), now: cfg.clock()}}
	for _, owner := range owners {
		c.engine.owners = append(c.engine.owners, &peer{url: owner})
	}
	c.engine.transport = cfg.Transport
	if cfg.Transport == nil {
		t := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true}
		c.engine.transport, c.idle = t, t
	}
	c.merged = exact.Merge(c.engine)
	return c, nil
}

// Take implements [exact.Counter].
func (c *Counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.merged.Take(ctx, call)
}

// Peek implements [exact.Counter].
func (c *Counter) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.engine.Peek(ctx, call)
}

// Refund implements [exact.Counter].
func (c *Counter) Refund(ctx context.Context, r exact.Receipt) error { return c.engine.Refund(ctx, r) }

// Part implements [exact.Parted].
func (c *Counter) Part(call exact.Call) int { return c.engine.Part(call) }

// Close closes the connections that nobody uses. A Transport of the caller's is the caller's
// to close.
func (c *Counter) Close() error {
	if c.idle != nil {
		c.idle.CloseIdleConnections()
	}
	return nil
}
