// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/pow"
)

const tokenField = "Tallystick-Token"

// How much of a response is looked at for tokens.
const (
	maxPieces    = 32      // pieces between commas, in all lines
	maxLine      = 8 << 10 // bytes of a line; a longer one is not a list of tokens
	maxToken     = 512     // bytes of a token
	maxPolicyLen = 32      // bytes of a policy's name
)

// The characters of a part of a token, and of a policy's name.
const (
	base64url  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	policyName = "abcdefghijklmnopqrstuvwxyz0123456789-"
)

// windowToken is a token and what it says of itself.
type windowToken struct {
	text   string
	policy string
	// tally is a hash of what tells the tallies of a policy apart: "fam" of one that was bought,
	// else "sub". Tokens that collide replace each other.
	tally uint64
	own   bool // it has a "fam": a tally that was bought
}

// readTokens returns the tokens in a response.
func readTokens(h http.Header) []windowToken {
	var tokens []windowToken
	pieces := 0
	for _, line := range h[tokenField] {
		if len(line) > maxLine {
			continue
		}
		for more := true; more && pieces < maxPieces; pieces++ {
			var piece string
			piece, line, more = strings.Cut(line, ",")
			if t, ok := parseToken(strings.Trim(piece, " \t")); ok {
				tokens = append(tokens, t)
			}
		}
	}
	return tokens
}

// parseToken reads a token as far as a jar must. Nothing is verified: a server
// that lies only confuses what is kept for itself.
func parseToken(text string) (t windowToken, ok bool) {
	if len(text) > maxToken {
		return t, false
	}
	parts := strings.SplitN(text, ".", 4)
	// It is sent in a field again, so it may have no other byte.
	if len(parts) != 3 || slices.ContainsFunc(parts, func(part string) bool { return !consistsOf(part, base64url) }) {
		return t, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return t, false
	}
	var claims struct {
		Policy  string          `json:"aud"`
		Tally   json.RawMessage `json:"fam"`
		Subject json.RawMessage `json:"sub"`
	}
	if json.Unmarshal(raw, &claims) != nil || len(claims.Policy) > maxPolicyLen || !consistsOf(claims.Policy, policyName) {
		return t, false
	}
	h := fnv.New64a()
	if claims.Tally != nil {
		// Its subject, if it has one, is the shared tally's too, and changes
		// with the server's key.
		_, _ = h.Write([]byte("fam"))
		_, _ = h.Write(claims.Tally)
	} else {
		_, _ = h.Write(claims.Subject)
	}
	// A copy, so that a token does not keep the whole line alive.
	return windowToken{strings.Clone(text), claims.Policy, h.Sum64(), claims.Tally != nil}, true
}

// consistsOf reports whether s has characters, and only these.
func consistsOf(s, characters string) bool { return s != "" && strings.Trim(s, characters) == "" }

// bringsOwn reports whether a request has one of a Transport's fields, in any
// spelling: net/http sends what is in the map.
func bringsOwn(h http.Header) bool {
	for name := range h {
		if strings.EqualFold(name, tokenField) || strings.EqualFold(name, pow.ProofField) {
			return true
		}
	}
	return false
}
