// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

const (
	quota  = 4
	echoes = 4 // keys whose client echoes what it knows; as many others drop it
)

// A client asks for one key, and is alone in it.
type client struct {
	echoes   bool
	call     exact.Call
	window   int64
	admitted int              // in the window, as it was told
	counted  map[*process]int // by whom it was truly counted
	owners   map[string]bool  // whom any list has named as its owner within the window
}

// A trial is a world that changes, and its clients.
type trial struct {
	*world
	window  time.Duration
	rnd     *rand.Rand
	clients []*client
	late    map[*process][]string // the lists that are on their way
	asked   int                   // requests
	most    int                   // owners of a key within a window
	worst   int                   // admitted to one client in a window
	changes int
	sound   bool // no answer is lost
	outages int  // requests without an answer
}

func newTrial(t testing.TB, seed uint64, n int, limit storeless.Limit) *trial {
	r := &trial{world: newWorld(t), window: limit.Window, rnd: rand.New(rand.NewPCG(seed, 1)), late: make(map[*process][]string)}
	r.fleet(n)
	p := exactkit.Compile(t, limit)
	for i := range 2 * echoes {
		r.clients = append(r.clients, &client{echoes: i < echoes, call: exact.Call{Key: fmt.Sprintf("%d-%d", seed, i), Cost: 1, Policy: p}})
	}
	r.named()
	return r
}

func (r *trial) alive() (list []*process) {
	for _, p := range r.all {
		if !p.gone {
			list = append(list, p)
		}
	}
	return list
}

// named notes whom the lists name as owners.
func (r *trial) named() {
	now := r.clock.Now().Unix() / int64(r.window/time.Second)
	for _, c := range r.clients {
		if c.window != now || c.owners == nil {
			c.window, c.admitted = now, 0
			c.counted, c.owners = make(map[*process]int), make(map[string]bool)
		}
		for _, p := range r.alive() {
			c.owners[p.OwnerOf(c.call)] = true
		}
	}
}

// tell has the lists of those who live name those who live, but for leavers: of some at once, of others later.
func (r *trial) tell(leavers ...*process) {
	r.changes++
	list := addresses(slices.DeleteFunc(r.alive(), func(p *process) bool { return slices.Contains(leavers, p) }))
	for _, p := range r.alive() {
		if r.late[p] = list; r.rnd.IntN(2) == 0 {
			r.hear(p)
		}
	}
}

func (r *trial) hear(p *process) {
	if list := r.late[p]; list != nil {
		p.Adopt(list...)
		delete(r.late, p)
	}
}

func (r *trial) step() {
	alive := r.alive()
	some := alive[r.rnd.IntN(len(alive))]
	switch n := r.rnd.IntN(100); {
	case n < 2 && len(alive) < 6: // a join; or, after a kill, a restart
		r.start(addresses(alive)...).Adopt(append(addresses(alive), r.all[len(r.all)-1].address)...)
		r.tell()
	case n < 4 && len(alive) > 1: // a death, of which lists hear later
		some.gone = true
		delete(r.late, some)
		r.tell()
	case n < 5: // a leaver goes on: it is in no list
		r.tell()
	case n < 7:
		other := alive[r.rnd.IntN(len(alive))]
		link := [2]*process{some, other}
		r.cut[link] = !r.cut[link]
	case n < 12:
		r.hear(some)
	case n < 14:
		r.clock.Advance(time.Duration(r.rnd.Int64N(int64(time.Minute) / 4)))
	default:
		r.ask(some, r.clients[r.rnd.IntN(len(r.clients))])
		return
	}
	r.named()
}

// counted returns what a process has counted for a client, by what its memory has left.
func (r *trial) counted(p *process, c *client) int {
	v, err := p.Memory().Peek(r.t.Context(), c.call)
	require.NoError(r.t, err)
	return quota - int(v.Limits[0].Remaining)
}

// truth returns what all processes together have admitted to a client in its window.
func (c *client) truth() (n int) {
	for _, of := range c.counted {
		n += of
	}
	return n
}

// ask has a client ask a process. Its answer may be lost, and then it is asked for again.
func (r *trial) ask(p *process, c *client) {
	call := c.call
	call.ID = fmt.Sprint(r.rnd.Uint64())
	if c.echoes && c.admitted > 0 {
		call.Known = []exact.Used{{ID: call.Policy.ID(0), At: c.window, Cur: uint32(c.admitted)}}
	}
	r.asked++
	before := make(map[*process]int)
	alive := r.alive()
	for _, one := range alive {
		before[one] = r.counted(one, c)
	}
	if !r.sound && r.rnd.IntN(10) == 0 {
		r.lose.Store(1 + r.rnd.Int64N(2))
	}
	v, err := p.Take(r.t.Context(), call)
	if err != nil && r.rnd.IntN(2) == 0 {
		if r.rnd.IntN(4) == 0 {
			r.hear(p) // its key may have moved meanwhile
		}
		r.named()
		v, err = p.Take(r.t.Context(), call)
	}
	r.lose.Store(0)
	for _, one := range alive {
		r.charged(one, c, before[one])
	}
	switch {
	case err != nil:
		r.outages++
	case v.Admitted:
		c.admitted++
	case c.echoes && r.sound:
		require.Equal(r.t, quota, c.admitted, "a client is refused that was admitted less than its limit")
	default:
		require.GreaterOrEqual(r.t, c.truth(), quota, "a client is refused that is under its limit")
	}
	owners := len(c.owners)
	r.most, r.worst = max(r.most, owners), max(r.worst, c.admitted)
	require.LessOrEqual(r.t, c.truth(), quota*owners, "L for each of %d owners", owners)
	if c.echoes {
		require.LessOrEqual(r.t, c.admitted, quota, "who echoes gets L, whatever comes and goes")
	}
}

// charged notes what a process has counted more than before, which is one at most, and what the call has said is known.
func (r *trial) charged(p *process, c *client, before int) {
	is := r.counted(p, c)
	require.LessOrEqual(r.t, is, quota, "a process admits L at most")
	require.LessOrEqual(r.t, is, max(before, c.admitted)+1, "no count is above what its client knows, or was before")
	if is > before {
		c.counted[p]++
	}
}

// Members come and go, their lists are late, links are cut and answers are lost: no client gets more than L for each
// process that was its owner within the window; no process admits more than L; who echoes gets L; and nobody is
// refused that is under its limit.
func TestBound(t *testing.T) {
	for _, l := range []storeless.Limit{ // of those whose windows end, a count would be another one than the oracle's: they last
		{Algorithm: storeless.FixedWindow, Quota: quota, Window: time.Minute},
		{Algorithm: storeless.SlidingWindow, Quota: quota, Window: 30 * 24 * time.Hour},
		{Algorithm: storeless.SlidingLog, Quota: quota, Window: 30 * 24 * time.Hour},
		{Algorithm: storeless.RollingDay, Quota: quota, Window: 24 * time.Hour},
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			seeds, steps := 40, 1500
			if kit.Brief() {
				seeds, steps = 2, 1000
			}
			owners, worst, changes, calls := 0, 0, 0, 0
			for seed := range seeds {
				r := newTrial(t, uint64(seed), 3, l)
				for range steps {
					r.step()
				}
				owners, worst, changes, calls = max(owners, r.most), max(worst, r.worst), changes+r.changes, calls+int(r.calls.Load())
			}
			t.Logf("%d changes of members, %d calls between processes; at most %d owners of a key in a window, and %d admitted to a client where L is %d", changes, calls, owners, worst, quota)
			require.Greater(t, worst, 2*quota, "the trial is too kind")
			require.Greater(t, owners, 3)
		})
	}
}
