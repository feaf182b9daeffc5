// SPDX-License-Identifier: Apache-2.0

package token

import "encoding/base64"

// MaxLen is the most bytes a window token may have: what every parser of
// structured fields must accept as a Token (RFC 9651 section 3.3.4).
const MaxLen = 512

const (
	subjectLen   = 11                                    // 64 bits in base64url
	signatureLen = 43                                    // 256 bits in base64url
	headerLen    = 64                                    // with its dot; see kidLen
	minLen       = headerLen + 1 + signatureLen          // shorter is not looked at
	payloadMax   = MaxLen - headerLen - 1 - signatureLen // in base64url
	jsonMax      = 512                                   // room to find out that a payload is too long
	textMax      = headerLen + jsonMax*4/3 + 4 + signatureLen
)

// strict refuses spare bits. It still skips line breaks: compare lengths as well.
var strict = base64.RawURLEncoding.Strict()
