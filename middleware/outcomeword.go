// SPDX-License-Identifier: Apache-2.0

package middleware

import "net/http"

// Charge says that the request counts in the limits of [ByOutcome], and NoCharge that it
// does not, whatever its status is: for handlers whose status does not tell, such as those
// that redirect in either case, or stream. The last word holds, also after the response and
// after the ten seconds; only a handler that panics is charged all the same. The token
// says it if the response header is not yet written; else the memory of this instance alone
// knows. Where several middlewares are stacked, all are told. They do nothing where no limit
// counts by outcome, and may be called from any goroutine.
func Charge(r *http.Request) { say(r, true) }

// NoCharge is told with [Charge].
func NoCharge(r *http.Request) { say(r, false) }

// say passes on what the handler says to each policy that counts by outcome: a log-in has one
// for the address and one for the account, and the guess was one in both.
func say(r *http.Request, charged bool) {
	for dc := contextOf(r.Context()); dc != nil; dc = contextOf(dc.Context) {
		if p := dc.pending(); p != nil {
			p.say(charged)
		}
	}
}
