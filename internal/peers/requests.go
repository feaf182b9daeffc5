// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"io"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/peers/turns"
)

// pace is how much is allocated between two collections while requests are measured: what a
// program allocates in which there is nothing but one limiter of ours, with a memory of 7 MiB.
const pace = 8 << 20

// Kinds of requests through ServeHTTP: the first part of the names of their benchmarks.
const (
	Known = "Request" // of clients that the limiter knows
	First = "First"   // of clients that it meets for the first time
	MAC   = "mac"     // the player of Known that computes one, over a token of ours
)

// MeasureRequests measures all contestants through ServeHTTP, on one processor. Those
// that meet new clients do it among themselves, at the end: the maps that they fill would make
// each collection dearer for all.
func MeasureRequests(ctx context.Context, groups int, long time.Duration, out, progress io.Writer) error {
	mac, err := oneMAC()
	if err != nil {
		return err
	}
	known := turns.Plan{Kind: Known, Players: []turns.Player{mac}, Slice: 1500, Groups: groups, For: long * 5 / 6, Pace: pace}
	first := turns.Plan{Kind: First, Slice: 1500, Groups: groups, For: long / 6, Pace: pace}
	for _, c := range Contestants() {
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

// oneMAC computes what a forged token that claims much may cost more than none: one HMAC
// over what the signature of such a token signs, with a state that is used again.
func oneMAC() (turns.Player, error) {
	forged, err := forgedHigh()
	if err != nil {
		return turns.Player{}, err
	}
	signed := []byte(forged[:strings.LastIndexByte(forged, '.')])
	h := hmac.New(sha256.New, secret())
	sum := make([]byte, 0, sha256.Size)
	return turns.Player{Name: MAC, Run: func(n int) {
		for range n {
			h.Reset()
			h.Write(signed)
			sum = h.Sum(sum[:0])
		}
	}}, nil
}
