// SPDX-License-Identifier: Apache-2.0

package middleware

// ByOutcome has some limits count by outcome, such as the wrong passwords of a log-in. It is
// plain data, like [Config].
//
// A request is admitted if all limits have room for its cost. In a limit that counts by
// outcome it then holds that room, and is charged when the response header is written, unless
// its status is free: so a thousand requests at once get no more than the quota, and the
// quota is how many can be under way at once, too. Everything else is charged: a handler that
// panics, takes the connection over or writes no status, a client that has gone by then,
// and a request that is not answered after 10 seconds, whatever comes of it. For a
// handler whose status does not tell there are [Charge] and [NoCharge].
//
// Tokens say only what is charged. What is held is known to this instance alone, in a map of
// its live requests; a refusal for that alone says Retry-After 1, because nobody knows when
// they end. The RateLimit fields are written before the outcome is known, and tell of the charge.
type ByOutcome struct {
	_ [0]func()

	// Limits are the names of the limits that count by outcome. At least one limit of the
	// policy must not be among them: what is free is not limited by these, and guessing
	// names or making the server hash passwords would be free. Required.
	Limits []string

	// Free are the statuses that do not count: those of success alone, such as 303. A
	// status that is free is a question that can be asked for ever, so that each is named.
	// A handler that writes a body without a status answers 200. Permitted: 200 to 599, or none
	// for a handler that always says [NoCharge].
	Free []int
}
