// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/sha256"
	"encoding/base64"
)

// MaxLen is the most bytes a window token may have: what every parser of
// structured fields must accept as a Token (RFC 9651 section 3.3.4).
const MaxLen = 512

const (
	payloadAt  = 57                   // where the payload begins: after the header of 56 and its dot
	fixedLen   = sha256.BlockSize     // how much is the same in all tokens of a key: compared as it is, hashed once
	kidAt      = 28                   // the groups of base64 in which the key id is: the quotes around it are in them too
	kidEnd     = 36                   //
	openingLen = fixedLen - payloadAt // how much of that is of the payload

	subjectLen   = 8                                     // 48 bits in base64url
	ownIDLen     = 8                                     // 48 bits in base64url
	signatureLen = 43                                    // 256 bits in base64url
	minLen       = fixedLen + 1 + signatureLen           // shorter is not looked at
	payloadMax   = MaxLen - payloadAt - 1 - signatureLen // in base64url
	jsonMax      = 512                                   // room to find out that a payload is too long
	textMax      = payloadAt + jsonMax*4/3 + 4 + signatureLen
)

// strict refuses spare bits. It still skips line breaks: compare lengths as well.
var strict = base64.RawURLEncoding.Strict()

// beginning returns what every payload of a policy begins with. As much of it as
// whole groups of base64 hold is encoded once and for all: opening, which is the same for
// all policies and ends the fixed start of a token, and lead. The rest, two bytes at most,
// is not.
func beginning(policy string) (opening, lead, prefix string) {
	text := `{"aud":"` + policy + `","`
	whole := len(text) / 3 * 3
	encoded := base64.RawURLEncoding.EncodeToString([]byte(text[:whole]))
	return encoded[:openingLen], encoded[openingLen:], text[whole:]
}
