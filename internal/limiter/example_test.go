// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"log"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A tally goes out with one answer and comes back with the next request. Step is
// all the arithmetic there is.
func ExamplePolicy_Step() {
	policy, err := limiter.Compile("contact", []storeless.Limit{
		{Quota: 2, Window: time.Minute},
		{Quota: 50, Window: 24 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 4, 1, 12, 0, 15, 0, time.UTC)
	var tally limiter.Tally // of a client that shows none
	for range 3 {
		var v storeless.Verdict
		tally, v = policy.Step(now, tally, 1)
		fmt.Println(v.Admitted, "left", v.Least(policy.Len()), "wait", v.Wait)
	}
	// Output:
	// true left 1 wait 0s
	// true left 0 wait 0s
	// false left 0 wait 1m15s
}

// A memory bounds a client that drops its tally, or shows an older one.
func ExampleMemory_Take() {
	policy, err := limiter.Compile("signup", []storeless.Limit{{Quota: 2, Window: time.Hour}})
	if err != nil {
		log.Fatal(err)
	}
	memory := limiter.NewMemory(0, policy.Len())
	candidate := limiter.Candidate{
		Key:   memory.Key([]byte("signup/192.0.2.1")),
		Shown: limiter.Tally{}, // nothing, each time
	}
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	for range 3 {
		_, v := memory.Take(now, policy, &candidate, 1)
		fmt.Println(v.Admitted)
	}
	// Output:
	// true
	// true
	// false
}

// All problems come at once, each with its field and what is permitted.
func ExampleCompile() {
	_, err := limiter.Compile("Contact form", []storeless.Limit{
		{Window: 90 * time.Millisecond},
		{Quota: 5, Window: time.Hour, Burst: 10},
		{Algorithm: storeless.TokenBucket, Quota: 1, Window: 24 * time.Hour, Burst: 1000},
	})
	fmt.Println(err)
	// Output:
	// Policy: must be 1 to 32 of a-z, 0-9 and -
	// Limits[0].Quota: must be from 1 to 2147483647, not 0
	// Limits[0].Window: must be whole seconds, from 1s to 8784h0m0s, not 90ms
	// Limits[1].Burst: belongs to a TokenBucket; leave it 0 for a sliding-window
	// Limits[2].Burst: a bucket of 1000 would take longer than 8784h0m0s to empty; use at most 366
}

// The wrong way. A tally is a note that the client carries, and nothing makes
// him show the newest one. Whoever decides by Step alone must expect the same
// old tally for ever; whoever throws the returned tally away plays that client
// himself. Keep what Step returns, and decide by [limiter.Memory.Take] with a memory
// wherever the client carries it.
func ExamplePolicy_Step_incorrect() {
	policy, err := limiter.Compile("login", []storeless.Limit{{Quota: 2, Window: time.Hour}})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	old, _ := policy.Step(now, limiter.Tally{}, 1) // the client keeps this one
	admitted := 0
	for range 1000 {
		_, v := policy.Step(now, old, 1) // WRONG: the new tally is dropped, the old one shown again
		if v.Admitted {
			admitted++
		}
	}
	fmt.Println("without a memory:", admitted)

	memory := limiter.NewMemory(0, policy.Len())
	candidate := limiter.Candidate{Key: memory.Key([]byte("login/192.0.2.1")), Shown: old}
	admitted = 0
	for range 1000 {
		if _, v := memory.Take(now, policy, &candidate, 1); v.Admitted {
			admitted++
		}
	}
	fmt.Println("with one:", admitted)
	// Output:
	// without a memory: 1000
	// with one: 1
}
