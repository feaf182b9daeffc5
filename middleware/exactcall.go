// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"errors"

	"github.com/tallystick/tallystick/middleware/exact"
)

// CallFor returns the call that a request by id makes to the counter of [Config.Exact], at a
// cost of 1. To decide about something outside of HTTP call [Middleware.Check], which makes
// this call and does all else that belongs to it: deadline, outage, refusals remembered. CallFor
// is for what only a counter can do, such as a call that is booked for later.
//
// The quotas are those of the identity's tier, or its own: [LimitsFor] may be asked. The caller
// makes the call, by a deadline of its own. What it charges is given back by the receipt alone.
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
	who := e.newSubject(context.Background(), e.now(), id)
	return e.exactCall(&who, new(credentials), 1).Call, nil
}
