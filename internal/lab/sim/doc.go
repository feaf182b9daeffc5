// SPDX-License-Identifier: Apache-2.0

// Package sim plays clients against the code that serves them in production, under a clock
// that is moved by hand: attackers beside the bound that the documentation prints, honest
// crowds, and a day of a million clients. It makes the tables of internal/lab/README.md.
//
// What depends on the middleware goes through its ServeHTTP, without sockets, by N instances
// that share nothing but the secret. Where a thousand instances serve a million clients, the
// decision of package limiter is called itself. Puzzles are real and tiny: work is told in
// multiples of W, the price of the first tally.
//
// All that chance decides here comes from a seed, so that the same tables are made again.
// What chance decides in the limiter, as which cell of its memory counts a client, does not
// show: where it could, the simulation names the cells itself.
package sim
