// Package token turns a tally into a short signed string, the window token, and
// back, or into one of five named refusals. The string is a compact JWS, an
// HS256 JWT, that any JWT library can read and verify with the key; this package
// reads and writes that one form without a JSON parser and without allocating.
//
// # What a token does not prove
//
// A token proves that this deployment counted what it says, for this holder and
// policy. That is less than it seems:
//
//   - Not that nothing was counted since. An older token of the same holder
//     verifies as well, until it expires. Who acts on a token's count alone can
//     be asked for ever with the first token of a window. Merge it with a memory
//     ([storeless.Take]): then a token makes the limiter stricter, never looser.
//   - Not that the client has no other tokens, or shows the best it has.
//   - Nothing that is secret. The payload is encoded, not encrypted: whoever
//     holds a token reads its counts. It holds no address and no name, but its
//     subject is the same in every token of a holder while the key lasts: a
//     pseudonym, and personal data where the law says so.
//   - Not who is asking. The holder is whatever identity the caller says; the
//     token is only good for it.
//
// A leaked secret therefore opens less than it seems. Who has it can sign a count
// of zero, which is no more than he has by showing no token at all: it takes away
// a client's own memory of use, while what the servers remember, and what exact
// counters count, stands. He can sign a full count for somebody else, who is then
// refused for as long as he is made to show it; he can try addresses until he
// finds whose a subject is; and whatever else is derived from the secret, such as
// challenges, is open too. So rotate.
//
// # Format
//
// Three segments of base64url without padding (RFC 7515 section 3.1, 7.1),
// joined by dots; at most [MaxLen] bytes, because that is the longest Token that
// every parser of structured fields must take (RFC 9651 section 3.3.4). All of
// it is fixed to the byte: a token has one spelling.
//
//	header    47 bytes of JSON, 63 encoded, 64 with its dot: one SHA-256 block,
//	          hashed once when the codec is made
//	payload   JSON, at most 303 bytes, 404 encoded
//	signature 32 bytes of HMAC-SHA256, 43 encoded
//
// The header and the payload of a first request at 1700000000, for a sliding
// limit of 5 a minute, another of 50 a day, and a token bucket of 6 a minute
// (spaces and line breaks are for the reader):
//
//	{"alg":"HS256","kid":"z5_gN","typ":"tally+jwt"}
//	{"aud":"contact","sub":"F0HO5fqE4v8","exp":1700092800,
//	 "t":[8060369,1547,1,0, 1872652,2,1,0, 13735150,92790000000,0,0]}
//
// The claims, always these and in this order:
//
//	aud  the policy's name, a string
//	sub  11 characters: the first 64 bits of HMAC-SHA256 of the identity, under a
//	     key that is used for nothing else
//	exp  a NumericDate (RFC 7519 section 4.1.4), an integer: the end of the second
//	     window of the limit that looks furthest. On that second it is expired
//	t    four integers for each limit that has counted something: id, age,
//	     current, previous
//
// An integer is written as JSON allows and in the shortest way: a minus or none,
// no plus, no leading zero, no minus zero, no fraction, no exponent. exp is at
// most 2³³, an id below 2²⁴, an age from -2⁵³ to 2⁵³, a count at most 2³¹-1, and
// no state lies before 1970 or after 2³³. So every number is exact in a float64,
// and no product of a decision leaves 64 bits, whoever signed.
//
// The id says which limit ([storeless.Policy.ID]). Entries of limits that the
// policy does not have are skipped, limits without an entry have counted
// nothing: a deployment that adds or drops a limit changes nothing else.
//
// The age says when, and is short where a time would be long. For a window it is
// the number of the window that begins at exp less that of the window counted,
// both since 1970: the minute of 1700000000 is the 28333333rd, and
// 1700092800/60 = 28334880, so the age is 1547; the day is the 19675th, and
// 1700092800/86400 = 19677, so it is 2, as it is for the limit that set exp. The
// counts are that window's and the one's before it. For a bucket (GCRA) it is the
// microseconds from the theoretical arrival time to exp: one of 6 a minute takes
// 10 s to leak, so the mark is 1700000010, and the age 92790 s. Both counts are 0
// for a bucket.
//
// The signature is HMAC-SHA256 (RFC 2104) over the first two segments and the
// dot between them, as RFC 7515 section 5.1 says.
//
// [Claims] is the same as a Go type; testdata/windowtoken.py is the same again,
// as a program without this package, and testdata/vectors.json has tokens of both
// kinds, good and bad, for whoever writes a third.
//
// # Keys
//
// Of each secret and policy, three values are derived by HKDF-SHA256 (RFC 5869)
// with the salt "tallystick/v1":
//
//	tallystick/v1/window/<policy>  32 bytes: the HS256 key
//	tallystick/v1/bind/<policy>    32 bytes: the key of subjects
//	tallystick/v1/kid/<policy>     whose first 5 base64url characters are the kid
//
// So a kid needs no bookkeeping and tells nothing; a key is of use for one policy
// and one purpose; and a token of another policy, or of another kind made from
// the same secret, has another key, another kid or another typ, and fails on each
// (RFC 8725 section 3.11 and 3.12). A secret has at least [MinSecret] bytes, as
// RFC 7518 section 3.2 asks, from a random source; a ring has one to
// [MaxSecrets]. No secret, key or identity is in an error, or in what a [Codec]
// or [Holder] prints.
//
// # Checks, and their order
//
// [Holder.Verify] checks the length and the place of the last dot
// ([ErrMalformed]); the header, byte for byte, against those of the ring
// ([ErrForeign]); the MAC, in constant time and as it is spelled ([ErrForged]);
// the form of the payload and its aud ([ErrMalformed]); exp ([ErrExpired]); sub,
// recomputed under the key that signed ([ErrHolder]).
//
// The MAC comes before all parsing. A parser that runs first is code that a
// stranger feeds, with choices that he makes: algorithms (RFC 8725 section 3.1),
// key ids that are paths, nested objects by the megabyte. Here a stranger gets
// two comparisons and one MAC of at most MaxLen bytes, and no allocation. The
// header is not parsed at all; golang-jwt's registry of algorithms, which any
// package of the program can change, is never asked; and there is no check of
// the character set because nothing but our own bytes has our MAC. (The draft
// that replaces RFC 8725, draft-ietf-oauth-rfc8725bis, asks for such a check, and
// for algorithm names to be compared with regard to case. Both follow.)
//
// Every refusal means the same to a caller: as if there were no token. It is not
// for the client to learn which it was.
//
// # Rotation
//
// The first secret of a ring signs, all verify. With no flag day:
//
//  1. Add the new secret last, on every instance.
//  2. When all have it, move it first, on every instance.
//  3. When the last token of the old one has expired, drop the old one: after two
//     of the longest windows, and what the slowest bucket takes to empty
//     (Burst·Window/Quota).
//
// Between neighbouring steps every instance reads the tokens of every other, and
// nobody's tally is lost: a subject is recomputed under the key that signed the
// token, and the next token is signed by the first. Dropping a secret early
// costs clients their tokens, not the servers their memory. After a leak, do all
// three steps at once.
//
// # Limits
//
// [New] refuses a policy whose fullest token would be longer than MaxLen bytes.
// Eight limits fit with quotas up to some ten thousand; five with quotas of a
// thousand million. Names of limits take no room, being hashed. Tokens expire in
// 2242 at the latest.
//
// # Sources
//
// RFC 7515 (JWS), RFC 7518 (JWA), RFC 7519 (JWT), RFC 8725 and
// draft-ietf-oauth-rfc8725bis (best current practice), RFC 5869 (HKDF), RFC 2104
// (HMAC), RFC 4648 section 5 (base64url), RFC 9651 section 3.3.4 (structured
// fields).
package token
