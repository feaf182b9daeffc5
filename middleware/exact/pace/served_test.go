// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/paced"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Counter serves a counter to other processes of a test.
type Counter struct{ exact.Counter }

// Asked is a call or a receipt, as it travels.
type Asked struct {
	Do     string
	Name   string
	Limits []storeless.Limit
	Call   exact.Call // without its policy

	At     time.Time
	Serial string
}

// Ask does as it is asked.
func (c *Counter) Ask(a Asked, v *exact.Verdict) (err error) {
	p, err := exact.Compile(a.Name, a.Limits)
	if err != nil {
		return err
	}
	ctx, call := context.Background(), a.Call
	call.Policy = p
	switch a.Do {
	case "take":
		*v, err = c.Counter.Take(ctx, call)
	case "peek":
		*v, err = c.Counter.Peek(ctx, call)
	case "refund":
		err = c.Refund(ctx, exact.Receipt{Key: call.Key, Cost: call.Cost, Policy: p, At: a.At, Serial: a.Serial})
	}
	v.Receipt.Policy = nil // which does not travel
	return err
}

// remote is the counter of another process.
type remote struct{ c *rpc.Client }

func (r *remote) ask(ctx context.Context, a Asked) (exact.Verdict, error) {
	p := a.Call.Policy
	a.Name, a.Call.Policy = p.Name(), nil
	for i := range p.Len() {
		a.Limits = append(a.Limits, p.Limit(i))
	}
	var v exact.Verdict
	call := r.c.Go("Counter.Ask", a, &v, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return exact.Verdict{}, ctx.Err()
	}
	v.Receipt.Policy = p
	return v, call.Error
}

func (r *remote) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return r.ask(ctx, Asked{Do: "take", Call: call})
}

func (r *remote) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	return r.ask(ctx, Asked{Do: "peek", Call: call})
}

func (r *remote) Refund(ctx context.Context, x exact.Receipt) error {
	_, err := r.ask(ctx, Asked{Do: "refund", Call: exact.Call{Key: x.Key, Cost: x.Cost, Policy: x.Policy}, At: x.At, Serial: x.Serial})
	return err
}

func open(where string) (exact.Counter, error) {
	c, err := jsonrpc.Dial("tcp", where)
	return &remote{c}, err
}

// Real processes share a counter that is served to them; those of package exact/redis share a
// Redis.
func TestPaced(t *testing.T) {
	server := rpc.NewServer()
	require.NoError(t, server.Register(&Counter{exact.NewMemory(0, nil)}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go server.ServeCodec(jsonrpc.NewServerCodec(c))
		}
	}()
	paced.Test(t, l.Addr().String(), open)
}

func TestPacedChild(t *testing.T) { paced.Child(t, open) }
