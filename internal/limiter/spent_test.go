// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
)

// A process whose record of a proof made room for others does not take a peer's for its own: the peer has spent the proof.
func TestProofOfAPeerIsNoneOfOurs(t *testing.T) {
	p, now := perMinute(t, 10), opening
	var peers [2]*gossip.Records
	var memories [2]*limiter.Memory
	for i := range peers {
		peers[i] = gossip.New(gossip.Config{Name: uint64(1 + i), Records: 16})
		memories[i] = limiter.NewMemory(100, 1)
		memories[i].Join(peers[i], "p")
	}
	for i := range peers {
		peers[i].Joined(now, uint64(2-i))
		peers[i].Ready()
	}
	tell := func(from, to int) {
		now = now.Add(50 * time.Millisecond)
		if batch := peers[from].Batch(now, uint64(1+to)); batch != nil {
			_, err := peers[to].Hear(now, uint64(1+from), batch)
			require.NoError(t, err)
			peers[from].Answered(now, uint64(1+to))
		}
	}
	shows := [2]*limiter.Proof{proofOf(7, time.Hour), proofOf(7, time.Hour)}
	take := func(at int) limiter.Verdict {
		_, v := memories[at].Take(now, p, &limiter.Candidate{Key: 1, Proof: shows[at]}, 1)
		return v
	}
	require.False(t, take(0).Admitted, "it waits for the peer")
	for key := range uint64(16) {
		peers[0].Add(now, gossip.Limit{Key: 1 + key, Seconds: 3600, Number: uint32(now.Unix() / 3600)}, 9, 100)
	}
	require.False(t, take(1).Admitted, "it waits for the peer")
	tell(1, 0)
	require.True(t, take(1).Admitted)
	require.True(t, take(0).Spent)
}
