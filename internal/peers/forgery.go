// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
)

// forge returns tok with another signature.
func forge(tok string) string {
	other := byte('A')
	if tok[len(tok)-2] == other {
		other = 'B'
	}
	return tok[:len(tok)-2] + string(other) + tok[len(tok)-1:]
}

// lengthen returns a forged token of the most bytes that has the header of tok.
func lengthen(tok string) string {
	head := tok[:64] // with less of what all tokens of a key begin with, no MAC is made
	return head + strings.Repeat("A", token.MaxLen-len(head)-len(".")-len(signature(tok))) + "." + signature(tok)
}

func signature(tok string) string { return tok[strings.LastIndexByte(tok, '.')+1:] }

// What the one request costs for which a token is issued.
const (
	low  = 1
	high = 500_000_000 // half of a plenty
)

// issued returns a good token of client 0 that says that it has used so much, of a
// policy under the secret of all.
func issued(o *opening, policy string, cost int64) (string, error) {
	cfg := config(Plenty(1))
	cfg.Policy, cfg.Now = policy, o.now
	cfg.Cost = func(*http.Request) int64 { return cost }
	m, err := middleware.New(cfg)
	if err != nil {
		return "", err
	}
	a := newAsker(http.MethodPost, m.Handler(Served()))
	a.both = true
	a.run(1)
	if err := a.after(1); err != nil {
		return "", err
	}
	if a.w.header.Get(tokenHeader) == "" {
		return "", fmt.Errorf("no token was issued: %v", a.w.header)
	}
	return a.w.header.Get(tokenHeader), nil
}

func forgedLow(o *opening) (string, error) {
	t, err := issued(o, policy, low)
	if err != nil {
		return "", err
	}
	return forge(t), nil
}

func forgedHigh(o *opening) (string, error) {
	t, err := issued(o, policy, high)
	if err != nil {
		return "", err
	}
	return forge(t), nil
}

func forgedLong(o *opening) (string, error) {
	t, err := issued(o, policy, low)
	if err != nil {
		return "", err
	}
	return lengthen(t), nil
}

// foreignToken returns a good token of another policy under the same secret.
func foreignToken(o *opening) (string, error) { return issued(o, "another", low) }
