// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/peers/turns"
	"github.com/tallystick/tallystick/token"
)

// pace is how much is allocated between two collections while requests are measured: what a
// program allocates in which there is nothing but one limiter of ours, with a memory of 7 MiB.
const pace = 8 << 20

// Kinds of requests through ServeHTTP: the first part of the names of their benchmarks.
const (
	Known = "Request" // of clients that the limiter knows
	First = "First"   // of clients that it meets for the first time

	// The players of Known that compute a MAC, over what the signature of a token of ours
	// signs, and over the most bytes that a token can have.
	MAC     = "mac"
	LongMAC = "mac-long"
)

// MeasureRequests measures all contestants through ServeHTTP, on one processor. Those
// that meet new clients do it among themselves, at the end: the maps that they fill would make
// each collection dearer for all. Of ours only those whose names match are measured.
func MeasureRequests(ctx context.Context, rows *regexp.Regexp, groups int, long time.Duration, out, progress io.Writer) error {
	forged, err := forgedHigh(new(opening))
	if err != nil {
		return err
	}
	macs := []turns.Player{
		onlyMAC(MAC, []byte(forged[:strings.LastIndexByte(forged, '.')])),
		onlyMAC(LongMAC, make([]byte, token.MaxLen)),
	}
	known := turns.Plan{Kind: Known, Players: macs, Slice: 1500, Groups: groups, For: long * 5 / 6, Pace: pace}
	first := turns.Plan{Kind: First, Slice: 1500, Groups: groups, For: long / 6, Pace: pace}
	for _, c := range Contestants() {
		if !rows.MatchString(c.Name) && strings.HasPrefix(c.Name, Ours) {
			continue
		}
		plan := &known
		if c.Meets() {
			plan = &first
		}
		player, err := c.Player()
		if err != nil {
			return err
		}
		plan.Players = append(plan.Players, player)
	}
	if err := turns.Measure(ctx, known, out, progress); err != nil {
		return err
	}
	return turns.Measure(ctx, first, out, progress)
}

// onlyMAC computes one HMAC over a message, with a state that is used again.
func onlyMAC(name string, message []byte) turns.Player {
	h := hmac.New(sha256.New, secret())
	sum := make([]byte, 0, sha256.Size)
	return turns.Player{Name: name, Run: func(n int) {
		for range n {
			h.Reset()
			h.Write(message)
			sum = h.Sum(sum[:0])
		}
	}}
}
