// SPDX-License-Identifier: Apache-2.0

// Package token signs tallies, so that clients can carry what they have used and cannot change it. It goes with
// package storeless; programs on net/http import package middleware, which makes the same tokens.
//
//	codec, err := token.New(limits, secrets)         // the configuration of the limiter, the secrets of all instances
//
//	shown, _ := codec.Verify(now, tenant, tok)       // the zero tally, where the token is refused
//	tally, verdict := limiter.Take(now, tenant, shown, 1)
//	tok = codec.Sign(tenant, tally)
//
// A token is a compact JWS, an HS256 JWT of at most 512 bytes. A service that only reads tokens needs no more than
// a JWT library and [Keyfunc]. docs/wire.md has every byte of it, for programs in other languages.
//
// # One policy, two doors
//
// A token that middleware has sent is good here, and the other way round: for the same policy name, limits, secrets and
// identity the bytes are the same. middleware.Principal("alice") is the identity "palice" here, and
// middleware.APIKey("alice") is "kalice", for names of at most 256 bytes. So a gRPC gateway and an HTTP server can limit
// the same clients together. A tally that middleware has sold for work belongs to no identity, and its token is refused here.
//
// # What a token does not prove
//
// A token proves that this deployment counted what it says, for this policy and this holder. It proves no more than that:
//
//   - It may be old. An older token of the same holder verifies as well, until it
//     expires. A server that acts on a token's count alone can be asked for ever
//     with the first token of a window. So a limiter merges it with what it
//     remembers: then a token makes it stricter, never looser.
//   - The client may have other tokens, and better ones.
//   - It is no secret. The payload is encoded, not encrypted: the holder of a token
//     reads its counts. It holds no address and no name. But its subject is the
//     same in every token of a holder while the key lasts: a pseudonym, and personal data
//     where the law says so.
//   - It does not identify the client. The program does that, and the token is good
//     for that identity alone.
//
// A thief of a secret can sign a count of zero, which is no more than to show no token, or a full count for a client that the thief can
// make show it; and can try identities to find out whose a subject is. Where middleware sells tallies, a thief can sign them without work.
// So rotate.
//
// # Rotation
//
// The first secret of a ring signs, and all verify. To rotate without a flag day:
//
//  1. Add the new secret last, on every instance.
//  2. When all have it, move it first, on every instance.
//  3. When the last token of the old secret has expired, drop the old secret. That is after two
//     of the longest windows. With buckets it is after three, and twice the time in which the
//     slowest bucket empties (Burst·Window/Quota), because of what is settled above its burst.
//     Where tallies are sold, it is after an hour at least.
//
// Between neighbouring steps every instance reads the tokens of every other, and no tally
// is lost: a subject is recomputed under the key that signed the token, a tally is
// the same under every key, and the next token is signed by the first. Dropping a secret
// early costs clients their tokens, and with them the tallies that they have bought. The
// servers keep their memory. After a leak, do all three steps at once.
package token
