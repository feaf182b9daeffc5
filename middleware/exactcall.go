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
	if err := e.hasAccount(id); err != nil {
		return exact.Call{}, err
	}
	who := e.newSubject(context.Background(), e.now(), id)
	return e.exactCall(&who, new(credentials), 1).Call, nil
}

// hasAccount says why an identity has no account at a counter, if it has none.
func (e *engine) hasAccount(id Identity) error {
	switch {
	case e.exact == nil:
		return errors.New("middleware: the policy has no exact counter: set Config.Exact")
	case id.IsZero():
		return errors.New("middleware: nobody has no account: the identity is zero")
	}
	return nil
}

// Reset has the counter of [Config.Exact] forget what id has used, under every limit of the policy:
// its next request finds all of its quotas, on this instance at once. Another that has refused it,
// and a token that says so, are believed for ten seconds still. What is given back later for a
// request of before is [exact.ErrNoRefund]. What token and memory have counted for an outage stays.
// [Middleware.Peek] says what id has used.
//
// It is an error if id is nobody, if the policy has no counter, and if that is no [exact.Archive]. An
// error of the counter is returned; to ask again is safe. ctx bounds how long it takes.
func (m *Middleware) Reset(ctx context.Context, id Identity) error {
	e := m.loaded()
	if err := e.hasAccount(id); err != nil {
		return err
	}
	counter, ok := e.exact.Counter.(exact.Archive)
	if !ok {
		return exact.ErrNoArchive
	}
	who := e.newSubject(ctx, e.now(), id)
	for shard := range e.shardsOf(&who) {
		c := e.shardCall(&who, new(credentials), 1, shard)
		if err := counter.Forget(ctx, c.Policy.AccountName(c.Key)); err != nil {
			return err
		}
		e.exact.refusals.Forget(c.refusal)
	}
	return nil
}
