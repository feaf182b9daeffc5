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
	"github.com/tallystick/tallystick/internal/token"
)

// A Run is what is said of a measurement beside what it is of.
type Run struct {
	Groups int
	For    time.Duration

	// Rows are those of ours that are measured, by their names; nil is all. The peers' always are.
	Rows *regexp.Regexp

	// Part makes slices shorter, so many times, for who wants to see them and not their
	// figures. 0 is 1.
	Part int

	Out, Progress io.Writer // of benchmarks, and of what is going on
}

// wants reports whether a row is measured.
func (r *Run) wants(name string) bool {
	return r.Rows == nil || !strings.HasPrefix(name, Ours) || r.Rows.MatchString(name)
}

// plan returns a plan of a part of the time, in slices of so many requests.
func (r *Run) plan(kind string, slice int, part float64) turns.Plan {
	return turns.Plan{Kind: kind, Slice: max(1, slice/max(1, r.Part)), Groups: r.Groups, For: time.Duration(part * float64(r.For))}
}

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
// each collection dearer for all.
func MeasureRequests(ctx context.Context, r Run) error {
	forged, err := forgedHigh(new(opening))
	if err != nil {
		return err
	}
	macs := []turns.Player{
		onlyMAC(MAC, []byte(forged[:strings.LastIndexByte(forged, '.')])),
		onlyMAC(LongMAC, make([]byte, token.MaxLen)),
	}
	known, first := r.plan(Known, 1500, 5./6), r.plan(First, 1500, 1./6)
	known.Players, known.Pace, first.Pace = macs, pace, pace
	for _, c := range Contestants() {
		if !r.wants(c.Name) {
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
	if err := turns.Measure(ctx, known, r.Out, r.Progress); err != nil {
		return err
	}
	return turns.Measure(ctx, first, r.Out, r.Progress)
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
