// SPDX-License-Identifier: Apache-2.0

// Package token turns a tally into a window token and back, or into one of five named refusals. It
// reads and writes the one form that the public package token describes, without a JSON parser and
// without allocating.
//
// # Checks, and their order
//
// [Holder.Verify] checks the length and the place of the last dot ([ErrMalformed]); the
// header and the seven characters after its dot, byte for byte, against those of the ring
// ([ErrForeign]); the MAC, in constant time and as it is spelled ([ErrForged]); the form of
// the payload and its aud ([ErrMalformed]); exp ([ErrExpired]); sub, where there is one,
// recomputed under the key that signed ([ErrHolder]).
//
// The MAC comes before all parsing. A parser that runs first is code that a stranger feeds,
// and the stranger makes the choices: algorithms (RFC 8725 section 3.1), key ids that are
// paths, nested objects by the megabyte. Here a stranger gets two comparisons and one MAC
// of at most MaxLen bytes, and no allocation. The header is not parsed at all; golang-jwt's
// registry of algorithms, which any package of the program can change, is never asked; and
// there is no check of the character set because nothing but our own bytes has our MAC.
// (The draft that replaces RFC 8725, draft-ietf-oauth-rfc8725bis, asks for such a check,
// and for algorithm names to be compared with regard to case. Both follow from this.)
//
// Every refusal means the same to a caller: as if there were no token. The client does not
// learn which it was.
//
// # Limits
//
// [New] refuses a policy whose fullest token, of a bound tally at any moment of its life,
// would be longer than MaxLen bytes. Eight limits fit with quotas up to some ten thousand;
// five with quotas of a thousand million. Names of limits take no room, because they are
// hashed. Tokens expire in 2242 at the latest.
package token
