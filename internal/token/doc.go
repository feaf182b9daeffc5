// SPDX-License-Identifier: Apache-2.0

// Package token turns a tally into a window token and back, or into one of five named refusals. It
// reads and writes one form, without a JSON parser and without allocating.
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
// testdata/windowtoken.py reads and writes it without
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
// # Sources
//
// RFC 7515 (JWS), RFC 7518 (JWA), RFC 7519 (JWT), RFC 8725 and draft-ietf-oauth-rfc8725bis
// (best current practice), RFC 5869 (HKDF), RFC 2104 (HMAC), FIPS 180-4 (SHA-256), RFC 4648
// section 5 (base64url), RFC 9651, section 3.3.4 (structured fields); Aumasson and
// Bernstein, SipHash: a fast short-input PRF, Indocrypt 2012.
package token
