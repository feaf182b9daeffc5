package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

func TestTry(t *testing.T) {
	const s = time.Second
	fixed := func(l int64) storeless.Limit {
		return storeless.Limit{Quota: l, Window: 10 * s, Algorithm: storeless.FixedWindow}
	}
	sliding := func(l int64) storeless.Limit {
		return storeless.Limit{Quota: l, Window: 10 * s, Algorithm: storeless.SlidingWindow}
	}
	bucket := storeless.Limit{Quota: 5, Burst: 2, Window: 10 * s, Algorithm: storeless.TokenBucket}
	two := []time.Duration{5 * s, 15 * s}
	four := []time.Duration{5 * s, 9500 * time.Millisecond, 10 * s, 15 * s}
	_, _, _, _ = two, four, fixed, bucket
	for _, w := range []World{
		{Limit: sliding(2), Instances: 2, Restarts:1, Moments: two, Mode: WhenExhausted, Tallies: 2},
		{Limit: sliding(2), Instances: 3, Restarts:1, Moments: two, Mode: WhenExhausted, Tallies: 1},
		{Limit: sliding(2), Instances: 2, Restarts:1, Moments: two, Step:s,Mode: WhenExhausted, Tallies: 1},
		{Limit: sliding(2), Instances: 2, Restarts:1, Moments: two, Mode: WhenExhausted, Tallies: 1, Shop:true,Memory:time.Minute},
		{Limit: fixed(2), Instances: 2, Restarts:1, Moments: two, Mode: WhenExhausted, Tallies: 2, Shop:true,Memory:time.Minute},
		{Limit: fixed(3), Instances: 3, Restarts:1, Moments: two[:1], Mode: Newcomers, Tallies: 2},
		{Limit: fixed(3), Instances: 3, Restarts:1, Moments: two[:1], Mode: WhenExhausted, Tallies: 2},
	} {
		began := time.Now()
		r, err := w.Explore()
		if err != nil {
			t.Fatal(err)
		}
		b, _ := w.Bound()
		fmt.Printf("%v N%d C%d cl%d mode%d F%d step%v: states %d moves %d memories %d calls %d most %d bound %d longest %d: %s %v\n%s\n", w.Limit.Algorithm, w.Instances, w.Restarts, w.Client, w.Mode, w.Tallies, w.Step, r.States, r.Moves, r.Memories, r.Calls, r.Most, b, r.Longest, r.Broken, time.Since(began), strings.Join(r.Trace, "\n"))
	}
}
