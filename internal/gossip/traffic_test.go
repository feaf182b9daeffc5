// SPDX-License-Identifier: Apache-2.0

package gossip_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// framed is what a batch and its answer have on the wire beside the batch: the head and the MAC of two
// frames.
const framed = 2 * (5 + 16)

// A traffic holds what ten processes tell each other of a minute.
type traffic struct{ requests, admitted, waited, batches, bytes, records int }

// play has ten processes serve requests for a minute, as many in each millisecond as they are. A batch is
// heard a millisecond after it was made, and its answer a millisecond later. A request that has to wait is
// shown again until it does not.
func play(t *testing.T, quota int64, requests int, next func(k int) (client uint64, process int)) (all traffic) {
	const n = 10
	type letter struct {
		from, to int
		batch    []byte
	}
	type request struct {
		client  uint64
		process int
	}
	policy := kit.Must(limiter.Compile("p", []limiter.Limit{{Algorithm: limiter.FixedWindow, Quota: quota, Window: time.Minute}}))(t)
	var records [n]*gossip.Records
	var memories [n]*limiter.Memory
	for i := range n {
		records[i] = gossip.New(gossip.Config{Name: uint64(i + 1)})
		for j := range n {
			records[i].Joined(noon, uint64(j+1))
		}
		records[i].Ready()
		memories[i] = limiter.NewMemory(0, 1)
		memories[i].Join(records[i], "p")
	}
	var post, answers []letter
	var waiting []request
	each := (requests + 59_999) / 60_000
	for ms := 0; ms < 60_000 && all.requests < requests || len(post)+len(waiting) > 0; ms++ {
		now := at(time.Duration(min(ms, 59_999)) * time.Millisecond)
		for _, l := range answers {
			records[l.from].Answered(now, uint64(l.to+1))
		}
		answers = post
		for _, l := range post {
			_, err := records[l.to].Hear(now, uint64(l.from+1), l.batch)
			require.NoError(t, err)
		}
		post = nil
		asked := waiting
		waiting = nil
		for range each {
			if all.requests < requests {
				client, process := next(all.requests)
				asked = append(asked, request{client, process})
				all.requests++
			}
		}
		for _, a := range asked {
			m := memories[a.process]
			f := limiter.Candidate{Key: m.Key(binary.BigEndian.AppendUint64(nil, a.client))}
			_, v := m.Take(now, policy, &f, 1)
			switch {
			case v.Admitted:
				all.admitted++
			case f.Waits.Key != 0:
				all.waited++
				if freed, ok := records[a.process].Wait(f.Waits, max(1, v.Least(1))); ok {
					records[a.process].Left(f.Waits, freed)
					waiting = append(waiting, a)
				}
			}
		}
		for i, r := range records {
			if due, ok := r.Next(); !ok || due.After(now) {
				continue
			}
			for j := range n {
				if batch := r.Batch(now, uint64(j+1)); batch != nil {
					all.batches++
					all.bytes += len(batch) + framed
					post = append(post, letter{i, j, batch})
				}
			}
		}
	}
	for _, r := range records {
		all.records = max(all.records, r.Stats().Records)
	}
	return all
}

// The page of the benchmarks says what peers tell each other of a request.
func TestTraffic(t *testing.T) {
	page := kit.Must(os.ReadFile("../../proof/bench/README.md"))(t)
	holds := func(name string, got traffic) {
		per := func(x int) float64 { return float64(x) / float64(got.requests) }
		row := fmt.Sprintf("| %s | %d | %.2f | %.1f | %.1f %% | %d |\n", name, got.admitted, per(got.batches), per(got.bytes), 100*per(got.waited), got.records)
		require.True(t, bytes.Contains(page, []byte(row)), row)
	}
	for _, quota := range []int64{5, 60, 100, 1000} {
		if kit.Brief() && quota != 1000 {
			continue
		}
		r := rand.New(rand.NewPCG(1, 2))
		clients := rand.NewZipf(r, 1.1, 10, 200_000)
		holds(fmt.Sprintf("Zipf, L = %d", quota), play(t, quota, 120_000, func(int) (uint64, int) { return clients.Uint64(), r.IntN(10) }))
	}
	if !kit.Brief() {
		for _, quota := range []int64{5, 100} {
			holds(fmt.Sprintf("300,000 addresses, L = %d", quota), play(t, quota, 300_000, func(k int) (uint64, int) { return uint64(k), k % 10 }))
		}
	}
}
