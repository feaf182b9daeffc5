// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"time"
)

// Event is a refusal and what the [Transport] does about it. A refusal is
// reported once, or twice if an attempt did not help.
type Event struct {
	// Request is the caller's. Only read it.
	Request *http.Request
	// Status of the refusal.
	Status int
	// Attempt counts all sends of the request.
	Attempt int
	// Action is what follows. "solving": the challenge is answered, here or by another request that
	// answers one of the same kind, and the request is sent again. "waiting": it is sent again after a
	// while. "returning": the refusal goes to the caller.
	Action string
	// Reason is why the refusal goes to the caller, a word for the label of a metric; else "".
	//
	//	not-rewindable    the request has a body and no GetBody, or that failed
	//	maybe-processed   a 503 to a method that is not idempotent
	//	caller-managed    a challenge to a request that brought its own token or proof, or whose URL has no origin
	//	no-more-attempts  MaxAttempts, of sends that count
	//	no-more-solves    MaxSolves
	//	too-much-work     MaxWork
	//	wait-too-long     MaxWait, or the deadline of the context
	//	bad-challenge     one that cannot be read, has no answer or no time to find it, or has been answered already
	//	no-advice         a 429 that does not say how or when to try again
	Reason string
	// Work is the price of the challenge in expected hashes, if one can be read.
	Work uint64
	// Wait is, with "waiting", the time until the next send; with "wait-too-long",
	// what the server asked for.
	Wait time.Duration
}

// The values of Event.Action and Event.Reason.
const (
	toSolve        = "solving"
	toWait         = "waiting"
	toReturn       = "returning"
	notRewindable  = "not-rewindable"
	maybeProcessed = "maybe-processed"
	callerManaged  = "caller-managed"
	noMoreAttempts = "no-more-attempts"
	noMoreSolves   = "no-more-solves"
	tooMuchWork    = "too-much-work"
	waitTooLong    = "wait-too-long"
	badChallenge   = "bad-challenge"
	noAdvice       = "no-advice"
)
