// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"time"

	"github.com/tallystick/tallystick/pow"
)

// The defaults of a [Transport].
const (
	defaultWork     = 1024 * pow.DefaultWork
	defaultSolves   = 3
	defaultAttempts = 5
	defaultWait     = 30 * time.Second
)

// Transport sends requests through Base, with the tokens of their origin, and
// retries refused requests that work or a wait can help. The zero value is
// ready to use:
//
//	c := &http.Client{Transport: &client.Transport{}}
//
// A Transport is safe for concurrent use. Its fields must not change and it must
// not be copied after its first request. Servers see a Transport as one client:
// use one for each account.
type Transport struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// MaxWork is the highest price of a challenge, in expected hashes, that is
	// paid. Zero means 2^28, as for pow.Solve; there is no way to say "any". To
	// pay nothing, set MaxSolves.
	MaxWork uint64

	// MaxSolves is how many challenges are solved for one request. Zero means 3,
	// a negative number none.
	MaxSolves int

	// MaxWait is how long one request waits in all because of Retry-After. For a
	// longer wait, or one beyond the context, the refusal is returned at once.
	// Zero means 30 seconds, a negative duration never to wait. Solving does not
	// count.
	MaxWait time.Duration

	// MaxAttempts is how often one request is sent, the first time included. Zero
	// means 5, a negative number 1. If parallel requests wait for what one of them
	// buys, the sends that show it do not count; there are at most as many again.
	MaxAttempts int

	// Workers is the number of cores that solve. Below one it is all of them.
	Workers int

	// Observe, if not nil, is called for every refusal, with its action. The
	// goroutine of the request runs it and waits.
	Observe func(Event)

	jar    jar
	queues queues
	solver turn
}
