// SPDX-License-Identifier: Apache-2.0

// Package token is about window tokens, by which clients carry what they have used: for
// services that read them ([Keyfunc]), and for who wants to know why one was refused. A token is
// a short signed string, a compact JWS, an HS256 JWT, that any JWT library can read and verify
// with the key. Package middleware makes them.
//
// # What a token does not prove
//
// A token proves that this deployment counted what it says, for this policy and this
// holder, or for a tally that somebody has bought. It proves no more than that:
//
//   - It may be old. An older token of the same holder verifies as well, until it
//     expires. A server that acts on a token's count alone can be asked for ever
//     with the first token of a window. So a server that counts merges it with what it
//     remembers: then a token makes it stricter, never looser.
//   - The client may have other tokens, and better ones.
//   - It is no secret. The payload is encoded, not encrypted: the holder of a token
//     reads its counts. It holds no address and no name. But its subject is the
//     same in every token of a holder while the key lasts, and an own tally's id is
//     the same in every token of that tally. Both are pseudonyms, and personal data
//     where the law says so.
//   - It does not say who is asking. Package middleware says that, and the token is good
//     for that identity alone. A token of an own tally that is not bound is good for
//     everybody who shows it.
//
// A leaked secret opens little while nothing is for sale. A thief can sign a count of zero,
// which is no more than to show no token at all: what the servers remember stands, and so
// does what exact counters count. A thief can sign a full count for another client, which
// is refused for as long as it is made to show it. A thief can try addresses to find out
// whose a subject is. But where tallies are for sale, a thief can sign own tallies without
// work, and each of them is a pass. Everything else that is derived from the secret, such
// as challenges, is open too. So rotate.
//
// # Format
//
// Three segments of base64url without padding (RFC 7515 section 3.1, 7.1), joined by dots.
// They have at most 512 bytes, because every parser of structured fields must take a
// Token of that length (RFC 9651 section 3.3.4). Every byte is fixed: a token has one
// spelling.
//
//	header    42 bytes of JSON, 56 encoded
//	payload   JSON, at most 308 bytes, 411 encoded
//	signature 32 bytes of HMAC-SHA256, 43 encoded
//
// Every payload begins with {"aud", which is eyJhdWQ when it is encoded. The header, its
// dot and these seven characters are 64 bytes, one SHA-256 block. That block is the same in
// all tokens of a key, and is hashed once, at start.
//
// The header and the payload of a first request at 1700000000, for a sliding limit of 5 a
// minute, another of 50 a day, and a token bucket of 6 a minute (spaces and line breaks are
// for the reader):
//
//	{"alg":"HS256","kid":"z5_g","typ":"t+jwt"}
//	{"aud":"contact","sub":"Jg1a74bJ","exp":1700092800,
//	 "t":[8060369,1547,1,0, 1872652,2,1,0, 13735150,92790000000,0,0]}
//
// The payloads of a client that has just bought a tally, before and after its first
// request. The last one is the first again, of a tally that is bound to its buyer:
//
//	{"aud":"contact","fam":"AQIDBAUGBwgA","exp":1700172800,"t":[]}
//	{"aud":"contact","fam":"AQIDBAUGBwgA","exp":1700172800,
//	 "t":[8060369,2880,1,0, 1872652,2,1,0, 13735150,172790000000,0,0]}
//	{"aud":"contact","sub":"Jg1a74bJ","fam":"AQIDBAUGBwgA","exp":1700172800,"t":[]}
//
// The claims, in this order:
//
//	aud  the policy's name, a string
//	sub  8 characters: the first 48 bits of the identity's hash, see below. In
//	     tokens of the shared tally, and of an own tally that is bound. Other
//	     tokens have none
//	fam  12 characters: the 72 bits of an own tally's id. In its tokens only
//	exp  a NumericDate (RFC 7519 section 4.1.4), an integer. On that second the
//	     token is expired. Shared: the end of the second window of the limit that
//	     looks furthest. Own: the end of the tally's life, the same in all of
//	     its tokens
//	t    four integers for each limit that has counted something: id, age,
//	     current, previous. Only an own tally has tokens that have counted
//	     nothing
//
// Package middleware derives an own tally's id and end from the challenge that was solved for it.
// The end is twice the longest window that is no longer than PassTime, an hour at least, after the challenge was issued. The second example
// is of a tally whose challenge was issued at 1700000000, where sales are remembered for a
// day: it ends 172800 s later. So nothing in the first token depends on when, where or how
// often the challenge is redeemed, and a replay is worth nothing.
//
// An integer is written in the shortest way that JSON allows: a minus or nothing, no plus,
// no leading zero, no minus zero, no fraction, no exponent. exp is from 1 to 2³³, an id
// below 2²⁴, an age from -2⁵³ to 2⁵³, a count at most 2³¹-1, and no state lies before 1970
// or after 2³³. So every number is exact in a float64, and no product in a decision exceeds
// 64 bits, whoever signed the token.
//
// The id says which limit it is (a hash of its algorithm, window and name). Entries of limits that the policy
// does not have are skipped, and limits without an entry have counted nothing. So a
// deployment that adds or drops a limit changes nothing else.
//
// The age says when, in fewer digits than a time. For a window it is the number of the
// window that begins at exp less that of the window counted, both since 1970: the minute of
// 1700000000 is the 28333333rd, and 1700092800/60 = 28334880, so the age is 1547; the day
// is the 19675th, and 1700092800/86400 = 19677, so the age is 2, as for the limit that set
// exp. The counts are of that window and of the one before it. Where an own tally has one
// part of a limit for all of its life, they are of that window
// and of all before it. For a bucket (GCRA) the age is the microseconds from the
// theoretical arrival time to exp: a bucket of 6 a minute takes 10 s to leak one request,
// so the mark is 1700000010, and the age 92790 s. The first count of a bucket is 0; where a
// cost was settled above the burst, it is the seconds by which the mark is further ahead
// than a full bucket's. The second count is 0. The end of an own tally has nothing to do
// with its windows. So an age is below zero where a bucket owes for longer than the tally
// has to live, or where an instance whose clock is ahead has begun a window.
//
// The signature is HMAC-SHA256 (RFC 2104) over the first two segments and the dot between
// them, as RFC 7515 section 5.1 says.
//
// internal/token/testdata/windowtoken.py reads and writes it without
// this package. vectors.json beside it has good and bad tokens of both kinds, for the
// authors of a third program.
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
// the order of the paper. Nobody but the server computes it, so a pseudorandom function is
// enough: without the key, nobody can tell whose a subject is, say whether two subjects
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
// stricter, never looser. An attacker who wants a token that a given client would take has
// to try some 2⁴⁸ addresses, and only a server's answer tells the subject of each. Then the
// attacker has to plant the token in that client. Who asks for all networks of 64 bits in
// an IPv6 /32 succeeds with 2⁻¹⁶. A bound own tally is good for another given client with
// 2⁻⁴⁸, and has one count for both.
//
// SipHash is not an algorithm that FIPS 140-3 approves. No authenticity rests on it: the
// MAC covers the subject, too. It hides an address from somebody who reads another's token,
// and nothing else.
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
// Between neighbouring steps every instance reads the tokens of every other, and nobody's
// tally is lost: a subject is recomputed under the key that signed the token, a tally is
// the same under every key, and the next token is signed by the first. Dropping a secret
// early costs clients their tokens, and with them the tallies that they have bought. The
// servers keep their memory. After a leak, do all three steps at once.
//
// # Sources
//
// RFC 7515 (JWS), RFC 7518 (JWA), RFC 7519 (JWT), RFC 8725 and draft-ietf-oauth-rfc8725bis
// (best current practice), RFC 5869 (HKDF), RFC 2104 (HMAC), FIPS 180-4 (SHA-256), RFC 4648
// section 5 (base64url), RFC 9651, section 3.3.4 (structured fields); Aumasson and
// Bernstein, SipHash: a fast short-input PRF, Indocrypt 2012.
package token
