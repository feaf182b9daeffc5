// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/internal/reply"
)

// An Ask describes what [Middleware.Decide] decides about: a call, a message, an attempt. It is
// plain data, like [Config].
type Ask struct {
	_ [0]func()

	// Identity is the client that asks. Config.Identity is not called. Required: the zero Identity
	// is an error.
	Identity Identity

	// Cost is what it costs, in place of Config.Cost. Default: 1. Permitted: 1 and more.
	Cost int64

	// Costs are what it costs in the units of the policy, in place of [Unit].Cost. Default: 1 in each. Permitted: 0 and more, of
	// [Config].Units alone.
	Costs map[string]int64

	// Tokens are what the client shows of Tallystick-Token: a line each, whose tokens may
	// be joined by commas, as a gRPC metadata value or a member of a message. They are the same
	// tokens as over HTTP. A line that is none is as if absent. Default: none, the memory of this
	// instance alone counts.
	Tokens []string

	// Proof is what the client shows of Tallystick-Proof. Default: none.
	Proof string

	// DryRun asks what the answer would be. It charges nothing, the memory does not remember it, Config.OnDecision is
	// not told, Proof is not looked at, and the Answer has a Decision alone, of the limits without Concurrency. Its
	// Limits stand as they do without Cost. It does not see that a counter has no room for a new key. Others may be
	// charged before the next call: to rely on the answer, decide without DryRun.
	DryRun bool
}

// Decide decides outside of HTTP: for interceptors, queues, messages of a connection, and handlers
// that learn the client from the body. It takes the same steps as [Middleware.Handler], by the same
// limits, tiers, memory, tokens, proofs and counter, and tells Config.OnDecision.
//
// Config.Identity, Cost and Skip are about HTTP requests and are not called; cookies, pages and the
// waiting room do not apply. It is an error, and nothing is decided, if the identity is zero, if
// the cost is negative, if ctx has ended, and where the policy has a Concurrency, which counts HTTP
// requests under way, unless it is a dry run. The Answer of an error allows nothing. A refusal is
// no error. A client that shows no proof is refused in the modes [Newcomers] and [EveryRequest],
// and in [WhenBusy] while the instance is busy. An [Exact] counter is waited for as long as
// Exact.Deadline permits, also if ctx ends meanwhile: else a client that hangs up would look like
// an outage.
func (m *Middleware) Decide(ctx context.Context, ask Ask) (Answer, error) {
	ask.Cost = cmp.Or(ask.Cost, 1)
	return m.loaded().decideAsk(call{ctx: ctx, id: ask.Identity, cost: ask.Cost, costs: ask.Costs, dry: ask.DryRun, lines: ask.Tokens, proof: ask.Proof})
}

// decideAsk decides about a call that is no HTTP request.
func (e *engine) decideAsk(q call) (Answer, error) {
	switch {
	case q.id.IsZero():
		return Answer{}, errors.New("middleware: the identity is zero: it names no client, and has no tally")
	case q.cost < 0:
		return Answer{}, fmt.Errorf("middleware: nothing can cost %d", q.cost)
	case !e.knowsCosts(q.costs):
		return Answer{}, fmt.Errorf("middleware: Ask.Costs must be 0 and more, of the policy's units, not %v", q.costs)
	case e.gate != nil && !q.dry:
		return Answer{}, errors.New("middleware: the policy has a Concurrency, which counts HTTP requests alone: ask a policy without it")
	case q.ctx.Err() != nil:
		return Answer{}, fmt.Errorf("middleware: nothing was decided: %w", q.ctx.Err())
	}
	dc := &decisionContext{Context: q.ctx}
	q.engine, q.dc = e, dc
	q.decide()
	e.allow(dc, nil)
	if e.hooks.onDecision != nil && !q.dry {
		e.hooks.onDecision(q.ctx, dc.decided())
	}
	if q.dry {
		return Answer{Decision: dc.decided()}, nil
	}
	return Answer{Decision: dc.decided(), asked: dc}, nil
}

// knowsCosts reports whether costs are of units of the policy, and none is negative.
func (e *engine) knowsCosts(costs map[string]int64) bool {
	for name, cost := range costs {
		if cost < 0 || !slices.ContainsFunc(e.units, func(u unit) bool { return u.name == name }) {
			return false
		}
	}
	return true
}

// An Answer is a [Decision] outside of HTTP, and what goes back to the client. The zero Answer
// allows nothing. Its methods may be called from any goroutine.
type Answer struct {
	Decision

	asked *decisionContext // nil: nothing was decided, or it was a dry run
}

// Token returns what goes back as Tallystick-Token, "" if nothing: the client shows it the
// next time. After Charge and Settle it says what they have changed.
func (a Answer) Token() string {
	for name, value := range a.Fields() {
		if name == reply.TokenField {
			return value
		}
	}
	return ""
}

// Fields yields the names and values of all fields that an HTTP response would have: the token,
// RateLimit and RateLimit-Policy or what Config.Fields has in their place, Retry-After, a
// challenge. [Config].Quiet and Shadow hold for them too.
func (a Answer) Fields() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if a.asked != nil {
			a.asked.reply.Fields.Each(yield)
		}
	}
}

// Charge says whether the attempt counts in the limits of [ByOutcome], as in [Charge]. Without it
// the attempt counts ten seconds after the decision. It does nothing after a refusal, and where no
// limit counts by outcome.
func (a Answer) Charge(counts bool) {
	if a.asked == nil {
		return
	}
	if p := a.asked.heldCharge(); p != nil {
		p.sayAtOnce(counts)
	}
}

// Settle says what it has cost, in place of the cost that was asked about, as [Settle] does for
// a request. 0 gives all of it back, in these units.
func (a Answer) Settle(cost int64, units ...string) error {
	if a.asked == nil {
		return errUncharged
	}
	return a.asked.settle(a.asked.Context, nil, cost, units)
}

// CallFor returns the call that a request by id makes to the counter of [Config.Exact], at a
// cost of 1. To decide about something outside of HTTP call [Middleware.Decide], which makes
// this call and does all else that belongs to it: deadline, outage, refusals remembered. CallFor
// is for what only a counter can do, such as a call that is booked for later.
//
// The quotas belong to the identity's tier, or are its own: [LimitsFor] may be asked. The caller
// makes the call, by a deadline of its own. Only the receipt gives its charge back.
//
// It is an error if id is zero, or if the policy has no counter.
func (m *Middleware) CallFor(id Identity) (exact.Call, error) {
	e := m.loaded()
	if err := e.hasAccount(id); err != nil {
		return exact.Call{}, err
	}
	return e.about(context.Background(), e.now(), id).exactCall(1).Call, nil
}

// hasAccount says why an identity has no account at a counter, if it has none.
func (e *engine) hasAccount(id Identity) error {
	switch {
	case e.exact == nil:
		return fmt.Errorf("middleware: the policy %q has no exact counter: set its Config.Exact, or ask the policy that has one", e.name)
	case id.IsZero():
		return errors.New("middleware: the identity is zero: it names no client, and has no account")
	}
	return nil
}

// Reset has the counter of [Config.Exact] forget what id has used, under every limit of the policy:
// its next request finds all of its quotas, on this instance at once. Another instance that has
// refused it, and a token that says so, are believed for ten more seconds. A later refund for an
// earlier request is [exact.ErrNoRefund]. The counts of token and memory, which serve in an outage,
// stay. A dry run of [Middleware.Decide] says what id has used.
//
// It is an error if id is zero, if the policy has no counter, and if that cannot forget an account. An
// error of the counter is returned; to ask again is safe. ctx bounds how long it takes.
func (m *Middleware) Reset(ctx context.Context, id Identity) error {
	e := m.loaded()
	if err := e.hasAccount(id); err != nil {
		return err
	}
	counter, ok := e.exact.Counter.(interface {
		Forget(ctx context.Context, name string) error
	})
	if !ok {
		return exact.ErrNoArchive
	}
	c := e.about(ctx, e.now(), id).exactCall(1)
	if err := counter.Forget(ctx, c.Policy.AccountName(c.Key)); err != nil {
		return err
	}
	e.exact.refusals.Forget(c.refusal)
	return nil
}
