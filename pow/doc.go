// SPDX-License-Identifier: Apache-2.0

// Package pow issues, solves and checks expiring, bound challenges of work.
//
//	issuer, err := pow.New(pow.Config{Secrets: secrets})
//	challenge, err := issuer.Issue(now, visitor, pow.DefaultWork)                    // the server asks
//	proof, err := pow.Solve(ctx, challenge.Text, pow.SolveOptions{MaxWork: 1 << 20}) // the client works
//	receipt, err := issuer.Verify(now, visitor, proof)                               // the server checks
//
// # What it does not promise
//
// It is a price, not a bot wall. The puzzle is SHA-256, the one function that is quick in
// plain JavaScript, and it is quicker elsewhere. At [DefaultWork] (2^18 expected hashes) one
// client pays about
//
//	3.4 s     a browser without a JIT
//	0.4 s     a slow phone of 2020
//	20-60 ms  a recent phone or laptop; Go on one core
//	3 ms      one native core with AVX-512
//	50 µs     one GPU (so about 20 000 challenges a second)
//
// Others published the rates of GPUs, and of phones with WebAssembly. On a phone plain JavaScript
// takes twice as long as WebAssembly. Native code is about 20 times as fast as a JavaScript thread,
// and a GPU 1300 to 4400 times. No function that plain JavaScript can run removes that gap. But
// dropping a token to start over is no longer free.
//
// A proof is good for as long as its challenge lives, and as often as it is shown: [Issuer.Verify]
// keeps no state. A program that must not accept a proof twice remembers [Receipt.ID] until
// [Receipt.Expires]. A program needs no memory if it derives all that it grants from the receipt
// alone: a replay then grants the same thing again.
//
// A proof is bound to a client, a route and a tier, but the work can be outsourced: nothing
// tells which machine computed the answers. Price the route as if attackers owned the
// machines they rent.
//
// Only a holder of a secret can check answers. The issuer authenticates a challenge; [ParseHeader]
// does not.
//
// # The puzzle
//
// A challenge hides k = 8 numbers below R; for each number the client gets six bytes of its hash,
// and hashes 0, 1, 2, … until these bytes match. Other puzzles ask for leading zeros. Here the work
// is linear in the price and has a worst case: twice the mean (the 99th percentile is 1.47 times
// the mean). There is exactly one answer. The issuer checks it without a puzzle hash: it derives
// the hidden numbers again with one MAC.
//
// A challenge of Work 0 hides nothing. It is a signed nonce that expires, and proves a round trip.
//
// # Wire
//
// All integers are big endian, all fields fixed in width: nothing is concatenated as text, so
// no field can grow into its neighbour.
//
//	 0  version 1            10  R, uint32
//	 1  kid                  14  nonce, 16 random bytes
//	 2  algorithm 1          30  binding tag, 8 bytes
//	 3  k                    38  k targets of 6 bytes
//	 4  issued, uint32 s     -16 MAC, 16 bytes
//	 8  ttl, uint16 s
//
//	header  = bytes 0 to 37
//	seed    = SHA-256(header)
//	binding = HMAC-SHA-256(k_bind, len32 client, len32 route, len32 tier)[:8]
//	numbers = HMAC-SHA-256(k_num, uint32(0) header), read as 8 uint32 u; n = u*R >> 32
//	target  = SHA-256(seed uint32(i) uint32(n))[:6]
//	MAC     = HMAC-SHA-256(k_mac, everything before it)[:16]
//	id      = SHA-256("tallystick/pow/id/1" header)[:16]
//
// The first six bytes of the nonce are its serial.
//
// HMAC is RFC 2104; the keys are HKDF-SHA-256 (RFC 5869) of a secret without salt and with
// info tallystick/pow/mac/1, …/num/1, …/bind/1 and, for the one byte of kid, …/kid/1. A
// challenge is written in base64url without padding (RFC 4648, section 5). Its size, 54+6k,
// is a multiple of three, so no spare bits exist and every challenge has exactly one
// spelling.
//
//	Tallystick-Challenge: <base64url>;ttl=10;work=262144
//	Tallystick-Proof: <base64url>~n0.n1.n2.n3.n4.n5.n6.n7
//
// The first is also a Token with parameters in the sense of RFC 9651. The answers are decimals
// without sign or leading zero. The ttl is relative (RFC 9110, section 10.2.3 allows the same for
// Retry-After): a client's clock need not be right. It is 10 s. At a high price it is the time of
// the worst case in a browser without a JIT, at most [Config.MaxTTL].
package pow
