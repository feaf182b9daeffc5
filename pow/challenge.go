// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The names of the header fields.
const (
	ChallengeField = "Tallystick-Challenge"
	ProofField     = "Tallystick-Proof"
)

// maxField is the longest value, in bytes, that ParseHeader reads.
const maxField = 4096

var errField = fmt.Errorf("%w: header field longer than %d bytes", ErrMalformed, maxField)

// Challenge is a challenge and its terms. From [Issuer.Issue] the terms are true;
// from [ParseHeader] they are claims of the sender.
type Challenge struct {
	// Text is the challenge in base64url: what [Solve] takes.
	Text string
	// Work is the price in expected hashes. The worst case is twice that.
	Work uint64
	// TTL is the life of the challenge from the moment it was issued, in whole
	// seconds.
	TTL time.Duration
}

// Header renders the value of a [ChallengeField].
func (c Challenge) Header() string {
	b := make([]byte, 0, len(c.Text)+len(";ttl=60;work=4294967296"))
	b = append(b, c.Text...)
	b = append(b, ";ttl="...)
	b = strconv.AppendInt(b, int64(c.TTL/time.Second), 10)
	b = append(b, ";work="...)
	b = strconv.AppendUint(b, c.Work, 10)
	return string(b)
}

// parse reads the terms of one challenge.
func parse(text string) (Challenge, error) {
	var h header
	var raw [maxRaw]byte
	if _, err := h.decode(&raw, text); err != nil {
		return Challenge{}, err
	}
	return Challenge{Text: text, Work: workOf(h.k, h.span), TTL: seconds(h.ttl)}, nil
}

// ParseHeader reads the terms of a challenge, as it is or as the value of a [ChallengeField], so that a
// client can see the price before it pays. It checks the form only; a client has no key. What it returns is
// the sender's word, and a server must never act on it: see [Issuer.Verify]. It is lenient about all that
// surrounds the challenge: spaces and tabs, parameters known or not, their order
// and their values. The parameters are for the eyes of people; the terms come
// from the challenge itself, so the two cannot be played off against each other.
//
// Where the value is a list (RFC 9110, section 5.3: repeated fields are joined
// by commas), the first challenge that this version can read is taken: a server
// may offer a newer kind in front. The error is [ErrMalformed], for the first
// member if none can be read, and for a value of more than 4096 bytes.
func ParseHeader(value string) (Challenge, error) {
	if len(value) > maxField {
		return Challenge{}, errField
	}
	var first error
	for member := range strings.SplitSeq(value, ",") {
		text, _, _ := strings.Cut(member, ";")
		c, err := parse(strings.Trim(text, " \t"))
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return Challenge{}, first
}
