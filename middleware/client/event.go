// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"time"
)

// Event is a refusal and what the [Transport] does about it. A refusal is told of
// once, or twice where what was tried did not help.
type Event struct {
	// Request is the caller's. It is only to be read.
	Request *http.Request
	// Status of the refusal.
	Status int
	// Attempt is how often the request has been sent, all sends counted.
	Attempt int
	// Action is what follows.
	Action Action
	// Reason is why the refusal goes to the caller, with [Returning] only.
	Reason Reason
	// Work is the price of the challenge in expected hashes, if one can be read.
	Work uint64
	// Wait is, with [Waiting], the time until the next send; with [WaitTooLong],
	// what the server asked for.
	Wait time.Duration
}

// Action is what a [Transport] does about a refusal.
type Action string

// The actions.
const (
	// Solving answers the challenge, or waits for another request that answers
	// one of the same kind, then sends again.
	Solving Action = "solving"
	// Waiting waits, then sends again.
	Waiting Action = "waiting"
	// Returning gives the refusal to the caller.
	Returning Action = "returning"
)

// Reason is why a refusal is returned to the caller. The values are fit for the
// label of a metric.
type Reason string

// The reasons.
const (
	// NotRewindable: the request has a body and no GetBody, or that failed.
	NotRewindable Reason = "not-rewindable"
	// MaybeProcessed: a 503 to a method that is not idempotent.
	MaybeProcessed Reason = "maybe-processed"
	// CallerManaged: a challenge to a request that brought its own token or
	// proof, or whose URL has no origin.
	CallerManaged Reason = "caller-managed"
	// NoMoreAttempts: MaxAttempts, of sends that count.
	NoMoreAttempts Reason = "no-more-attempts"
	// NoMoreSolves: MaxSolves.
	NoMoreSolves Reason = "no-more-solves"
	// TooMuchWork: MaxWork.
	TooMuchWork Reason = "too-much-work"
	// WaitTooLong: MaxWait, or the deadline of the context.
	WaitTooLong Reason = "wait-too-long"
	// BadChallenge: one that cannot be read, has no answer or no time to find it,
	// or has been answered already.
	BadChallenge Reason = "bad-challenge"
	// NoAdvice: a 429 that does not say how or when to try again.
	NoAdvice Reason = "no-advice"
)
