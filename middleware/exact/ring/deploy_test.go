// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// instances are how many there are of a program that is deployed.
const instances = 10

// load has clients ask whichever process lives. Who echoes is slow, so that its limit lasts.
func (r *trial) load() {
	alive := r.alive()
	for range 6 {
		if c := r.clients[r.rnd.IntN(len(r.clients))]; !c.echoes || r.rnd.IntN(8) == 0 {
			r.ask(alive[r.rnd.IntN(len(alive))], c)
		}
	}
}

// settle has those hear who have not yet, one after the other in 30 seconds, under load.
func (r *trial) settle() {
	r.named()
	r.load()
	for _, p := range r.all {
		if r.late[p] != nil {
			r.clock.Advance(30 * time.Second / instances)
			r.hear(p)
			r.named()
			r.load()
		}
	}
}

// join starts a process, which knows all others before they know it.
func (r *trial) join() {
	p := r.start()
	p.Adopt(addresses(r.alive())...)
	r.tell()
	r.settle()
}

// deploy replaces all processes, one after the other: the new one comes, the old one leaves the lists, answers for
// as long as any of them is late, and ends.
func (r *trial) deploy() {
	for _, old := range slices.Clone(r.alive()) {
		r.join()
		r.tell(old)
		r.settle()
		old.gone = true
	}
}

// kill kills a process when it has counted a call and not answered. The lists hear of it later, and then of who
// comes in its place.
func (r *trial) kill() {
	alive := r.alive()
	dies := alive[r.rnd.IntN(len(alive))]
	asked := alive[(slices.Index(alive, dies)+1)%len(alive)]
	for _, c := range r.clients {
		if asked.OwnerOf(c.call) == dies.address {
			r.lose.Store(1)
			_, _ = asked.Take(r.t.Context(), c.call)
			r.lose.Store(0)
			break
		}
	}
	dies.gone = true
	r.tell()
	r.settle()
	r.join()
}

// Ten processes are deployed anew a hundred times, and lose one a hundred times, under load: nobody who echoes is
// refused before it has been admitted L, and who drops gets L for each owner of its key within the window: see ask. In
// a deploy no call fails; after a death those for its keys do, until lists drop it.
func TestRollingDeploys(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*trial)
		fails  bool
	}{{"deploy", (*trial).deploy, false}, {"kill", (*trial).kill, true}} {
		t.Run(c.name, func(t *testing.T) {
			seeds, seed := 100, 0
			if kit.Brief() {
				seeds = 5
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("it was seed %d", seed)
				}
			})
			asked, failed, most, honest, owners, dropped := 0, 0, 0, 0, make(map[int]int), make(map[int]int)
			for ; seed < seeds; seed++ {
				r := newTrial(t, uint64(seed), instances, storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: 30 * 24 * time.Hour})
				r.sound = true
				r.load()
				c.change(r)
				asked, failed, most = asked+r.asked, failed+r.outages, max(most, r.most)
				for _, c := range r.clients {
					if c.echoes {
						honest += c.admitted
						continue
					}
					owners[len(c.owners)]++
					dropped[(c.admitted+quota-1)/quota]++
				}
			}
			t.Logf("%d requests, of which %d failed; who echoes was admitted %d times, and refused under its limit 0", asked, failed, honest)
			t.Logf("droppers by owners of their keys within the window: %v; by what they got, in L: %v", owners, dropped)
			require.Equal(t, c.fails, failed > 0)
			require.Greater(t, honest, seeds)
			require.Greater(t, most, 1, "the trial is too kind")
			require.Positive(t, dropped[2], "the trial is too kind")
		})
	}
}
