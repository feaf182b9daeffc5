// SPDX-License-Identifier: Apache-2.0

// Package token turns a tally into a window token and back, or into one of five named refusals. It
// reads and writes one form, without a JSON parser and without allocating.
//
// # Checks, and their order
//
// [Holder.Verify] checks the length and the place of the last dot ([ErrMalformed]); the
// header and the seven characters after its dot, byte for byte, against the ring's
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
//
// # Format
//
// docs/wire.md specifies every byte. testdata/windowtoken.py reads and writes tokens without this package, and vectors.json beside it
// has good and bad ones of both kinds. The header and the payload of a first request at 1700000000, for a sliding
// limit of 5 a minute, another of 50 a day, and a token bucket of 6 a minute (spaces and line
// breaks are for the reader):
//
//	{"alg":"HS256","kid":"z5_g","typ":"t+jwt"}
//	{"aud":"contact","sub":"Jg1a74bJ","exp":1700092800,
//	 "t":[8060369,1547,1,0, 1872652,2,1,0, 13735150,92790000000,0,0]}
//
// A token has at most 512 bytes, because every parser of structured fields must take a Token of that length
// (RFC 9651 section 3.3.4): 56 of the header, 411 of the payload, 43 of the signature, and two dots. The header, its dot, and what every payload
// begins with ({"aud", which is eyJhdWQ when it is encoded) are 64 bytes, one SHA-256 block. It is the same in
// all tokens of a key, and is hashed once, at start. An age takes fewer digits than a time. No state lies before 1970 or after 2³³, so every number
// is exact in a float64, and no product in a decision exceeds 64 bits, even if a thief of the key signed the token.
//
// Nothing in the first token of an own tally depends on when, where or how often its challenge is redeemed, so that a
// replay is worth nothing.
//
// # Keys
//
// Of each secret and policy, three values are derived by HKDF-SHA256 (RFC 5869) with the
// salt "tallystick/v1":
//
//	tallystick/v1/window/<policy>  32 bytes: the HS256 key
//	tallystick/v1/bind/<policy>    32 bytes, the first 16: the key of subjects, and
//	                               nothing else
//	tallystick/v1/kid/<policy>     whose first 4 base64url characters are the kid
//
// So a kid needs no bookkeeping and tells nothing. Two keys have the same kid with a chance
// of 2⁻²⁴; two such keys in one ring are refused. A key serves one policy and one
// purpose. A token of another policy or kind that was made from the same secret has another
// key, and another kid or typ, and fails on each (RFC 8725 section 3.11 and 3.12). A secret
// has at least 32 bytes, as RFC 7518 section 3.2 asks, from a random source; a
// ring has one to eight. No secret, key or identity is in an error, or in anything that is printed.
//
// # Subjects
//
// A subject is the first 6 of the 8 bytes of SipHash-2-4 of the identity, lowest first, in
// the order of the paper. Only the server computes it, so a pseudorandom function is enough:
// without the key, an attacker cannot tell whose a subject is, say whether two subjects
// under different keys are of one client, or make one that fits. SipHash was made for that,
// with a key of 128 bits and inputs as short as addresses, and it is several times faster
// than SHA-256 of key and identity, or HMAC. It would not do for a hash without a key, and
// 48 bits would not do for a signature. A subject is neither. It is no credential: it is
// compared only within a token whose MAC is good, and that is HMAC-SHA256.
//
// Package middleware says which identities differ. All bytes of an identity are hashed, and their
// number modulo 256 with them. So an identity, and the same with a zero behind it, are two;
// and one may begin as another does. Where identities are of several kinds, such as
// addresses and API keys, a byte in front that names the kind, and one encoding for each
// kind, are enough.
//
// 48 bits are enough, because two clients with one subject break nothing. Each client shows
// its own tokens, and nothing is counted by subject: of a million clients two share one
// with a chance of 1 in 560, and neither notices. If a client shows a token of another
// client with the same subject, it takes that count for its own, which makes the limiter
// stricter, never looser. An attacker that wants a token that a given client would take has
// to try some 2⁴⁸ addresses, and only a server's answer tells the subject of each. Then the
// attacker has to plant the token in that client. An attacker that asks for all networks of
// 64 bits in an IPv6 /32 succeeds with 2⁻¹⁶. A bound own tally is good for another given client with
// 2⁻⁴⁸, and has one count for both.
//
// SipHash is not an algorithm that FIPS 140-3 approves. No authenticity rests on it: the
// MAC covers the subject, too. It hides an address from a reader of another client's token,
// and nothing else.
//
// # Sources
//
// RFC 7515 (JWS), RFC 7518 (JWA), RFC 7519 (JWT), RFC 8725 and draft-ietf-oauth-rfc8725bis
// (best current practice), RFC 5869 (HKDF), RFC 2104 (HMAC), FIPS 180-4 (SHA-256), RFC 4648
// section 5 (base64url), RFC 9651, section 3.3.4 (structured fields); Aumasson and
// Bernstein, SipHash: a fast short-input PRF, Indocrypt 2012.
package token
