// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// A calling is the counter of [Open].
type calling struct {
	owners []*peer
	idle   interface{ CloseIdleConnections() } // nil if the transport is not its own
}

// Open returns a counter that calls the owners of these URLs, each http or https. Every key has one
// owner: every process must have the same list, in any order. Open itself calls none. It reports
// all problems of owners and cfg, each a [storeless.ConfigError].
//
// The counter is a [engine.Partitioned]: an owner that hangs is an outage for its own keys alone. It is safe for
// concurrent use. Close closes the idle connections; a Transport of the caller's is the caller's to close.
func Open(owners []string, cfg Config) (engine.CounterCloser, error) {
	errs := cfg.check()
	if len(owners) == 0 {
		errs = append(errs, &storeless.ConfigError{Field: "owners", Problem: "must be at least one URL"})
	}
	parsed := make([]*url.URL, len(owners))
	for i, owner := range owners {
		field := fmt.Sprintf("owners[%d]", i)
		u, err := url.Parse(owner)
		parsed[i] = u
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
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
	c := new(calling)
	by := &sender{keys: newRing(cfg.Secrets), transport: cfg.Transport, now: cfg.clock()}
	if cfg.Transport == nil {
		// A caller that gives up does not end a dial: an owner that swallows them would be dialled by each call for
		// minutes.
		dialer := &net.Dialer{Timeout: maxWait}
		t := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true, DisableCompression: true}
		by.transport, c.idle = t, t
	}
	for i, owner := range owners {
		o := &peer{url: owner, to: parsed[i], name: (&url.URL{Scheme: parsed[i].Scheme, Host: parsed[i].Host, Path: parsed[i].Path}).String()}
		o.calls.at, o.refunds.at = make(map[exact.Call]int), make(map[exact.Call]int)
		send := func(ctx context.Context, groups []group, heard func()) { by.send(ctx, o, groups, heard) }
		o.calls.send, o.refunds.send = send, send
		c.owners = append(c.owners, o)
	}
	return c, nil
}

// Part implements [engine.Partitioned].
func (c *calling) Part(call exact.Call) int {
	if len(c.owners) == 1 || call.Policy == nil {
		return 0
	}
	return rendezvous(c.owners, call.Policy.Name()+"\x00"+call.Key)
}

// Take implements [exact.Counter].
func (c *calling) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.ask(ctx, opTake, call)
}

// Peek implements [exact.Counter].
func (c *calling) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return c.ask(ctx, opPeek, call)
}

func (c *calling) ask(ctx context.Context, op string, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	o := c.owners[c.Part(call)]
	v, err := o.calls.do(&waiter{ctx: ctx, op: op, call: call})
	return v, o.fault(err)
}

// Refund implements [exact.Counter].
func (c *calling) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil || r.Serial == "" || r.Cost < 1 {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	w := &waiter{ctx: ctx, op: opRefund, call: exact.Call{Key: r.Key, Cost: r.Cost, Costs: r.Costs, Policy: r.Policy}}
	w.charged, w.receipt = r.At, &receipt{r.Serial, strconv.FormatInt(r.At.UnixNano(), 10)}
	o := c.owners[c.Part(w.call)]
	_, err := o.refunds.do(w)
	return o.fault(err)
}

// Close implements [io.Closer].
func (c *calling) Close() error {
	if c.idle != nil {
		c.idle.CloseIdleConnections()
	}
	return nil
}

// rendezvous returns which of the owners a name belongs to: the one whose hash with it is
// largest (Thaler and Ravishankar, 1998). When an owner is added or gone, only its keys
// move.
func rendezvous(owners []*peer, name string) (best int) {
	var most uint64
	for i, o := range owners {
		h := sha256.New()
		h.Write([]byte(o.url))
		h.Write([]byte{0})
		h.Write([]byte(name))
		if weight := binary.BigEndian.Uint64(h.Sum(nil)); i == 0 || weight > most {
			best, most = i, weight
		}
	}
	return best
}
