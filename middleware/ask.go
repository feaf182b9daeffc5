// SPDX-License-Identifier: Apache-2.0

package middleware

// An Ask is what [Middleware.Decide] decides about: a call, a message, an attempt. It is plain
// data, like [Config].
type Ask struct {
	_ [0]func()

	// Identity says who asks. Config.Identity is not asked. Required: nobody, the zero
	// Identity, is an error.
	Identity Identity

	// Cost is what it costs, in place of Config.Cost. Default: 1. Permitted: 1 and more.
	Cost int64

	// Tokens are what the client shows of Tallystick-Token: a line each, whose tokens may
	// be joined by commas, as a gRPC metadata value or a member of a message. They are the same
	// tokens as over HTTP. A line that is none is as if absent. Default: none, the memory of this
	// instance alone counts.
	Tokens []string

	// Proof is what the client shows of Tallystick-Proof. Default: none.
	Proof string
}
