package middleware

import (
	"context"
	"errors"

	"github.com/tallystick/tallystick/middleware/exact"
)

// CallFor returns the call that a request by id makes to the counter of
// [Config.Exact], at a cost of 1: for a program that spends the same quota elsewhere, with
// [exact.Counter].Take, or shows what is left of it, with [exact.Counter].Peek. The quotas
// are those of the identity's tier, or its own if it has such: [LimitsFor] may be asked. The caller makes it, by a deadline of its own;
// what it charges can be given back by the receipt alone, not by [Refund].
//
// With Exact.Shards it is a call for one of an address's keys, at random. It is an error
// if id is nobody, or if the policy has no counter.
func (m *Middleware) CallFor(id Identity) (exact.Call, error) {
	e := m.loaded()
	if e.exact == nil {
		return exact.Call{}, errors.New("middleware: the policy has no exact counter: set Config.Exact")
	}
	if id.IsZero() {
		return exact.Call{}, errors.New("middleware: nobody has no account: the identity is zero")
	}
	who := e.newSubject(context.Background(), e.now(), id, nil)
	return e.exactCall(&who, new(credentials), 1).Call, nil
}
