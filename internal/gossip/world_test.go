// SPDX-License-Identifier: Apache-2.0

package gossip_test

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/truth"
)

// A world plays processes of the real code on a moved clock and a network that delays, loses, doubles and
// reorders. One client asks them all. Truth counts what was admitted, and knows no process.
type world struct {
	setting
	r      *rand.Rand
	now    time.Duration // since the beginning
	events agenda
	serial int
	starts uint64
	procs  []*process // by place
	all    []*process
	policy *limiter.Policy
	cut    func(a, b int) bool

	admitted []map[int64]int64 // of each limit, by window, less what was given back
	heard    []map[int64]int64 // the same, but what was given back counts a second later
	gross    []map[int64]int64 // the most that admitted was
	begun    map[int64]int64   // processes that started, by window of the first limit
	dearest  int64
	fewest   int          // processes that one of them heard, itself too, when it admitted: f is of these
	drops    []truth.Drop // where the only limit is a bucket

	asked, refused, wrong, soon, busy, waited, told int
	late                                            int // peers that live and have not been cut off
	alone                                           int // processes that began without records of another
	longest                                         time.Duration
}

// A setting has the parameters of a world.
type setting struct {
	n          int
	limits     []limiter.Limit
	loss, slow float64       // how many messages
	skew       time.Duration // of two clocks, at most
	records    int
	network    bool // requests come from two clients of a network, which has no more than one of them
}

const epoch = 1_800_000_000 // a multiple of the windows here

type process struct {
	w          *world
	place      int
	name       uint64
	off        time.Duration
	records    *gossip.Records
	memory     *limiter.Memory
	links      map[uint64]*link
	waits      []*waiter
	began      time.Duration
	dead, gone bool
	isReady    bool
	planned    time.Duration
}

// A link is one end of a connection.
type link struct {
	to     *process
	serial int // of the batch under way
	joined bool
	silent time.Duration // since when nothing was answered; 0: it was
}

type waiter struct {
	of     int
	cost   int64
	token  limiter.Tally
	proof  *limiter.Proof
	since  time.Duration
	freed  <-chan struct{}
	limit  gossip.Limit
	answer func(bool, limiter.Tally)
}

type event struct {
	at   time.Duration
	n    int
	what func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].n < a[j].n
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	*a = (*a)[:last]
	return e
}

func newWorld(s setting, seed uint64) *world {
	w := &world{setting: s, r: rand.New(rand.NewPCG(seed, 1)), begun: map[int64]int64{}, fewest: s.n}
	var err error
	if w.policy, err = limiter.Compile("p", s.limits); err != nil {
		panic(err)
	}
	for range s.limits {
		w.admitted, w.heard, w.gross = append(w.admitted, map[int64]int64{}), append(w.heard, map[int64]int64{}), append(w.gross, map[int64]int64{})
	}
	for i := range s.n {
		w.procs = append(w.procs, w.start(i))
	}
	for _, p := range w.procs {
		p.ready()
		for _, o := range w.procs {
			if o != p {
				p.join(o)
			}
		}
	}
	return w
}

func (w *world) at(t time.Duration, f func()) {
	w.serial++
	heap.Push(&w.events, event{max(t, w.now), w.serial, f})
}
func (w *world) after(d time.Duration, f func()) { w.at(w.now+d, f) }

func (w *world) run(until time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.what()
	}
}

func (w *world) start(place int) *process {
	w.starts++
	p := &process{w: w, place: place, name: w.starts, links: map[uint64]*link{}, began: w.now}
	if w.skew > 0 {
		p.off = time.Duration(w.r.Int64N(int64(w.skew))) - w.skew/2
	}
	p.records = gossip.New(gossip.Config{Name: p.name, Records: w.records, Wake: func() { w.after(0, p.pump) }})
	p.memory = limiter.NewMemory(256, len(w.limits))
	p.memory.Join(p.records, "p")
	w.all = append(w.all, p)
	return p
}

func (p *process) clock() time.Time { return time.Unix(epoch, 0).Add(p.w.now + p.off) }

func (p *process) ready() {
	p.isReady = true
	p.records.Ready()
}

func (p *process) join(o *process) {
	if l := p.links[o.name]; l != nil && l.joined {
		return
	}
	p.links[o.name] = &link{to: o, joined: true}
	p.records.Joined(p.clock(), o.name)
}

// send has f happen at another process, perhaps twice, perhaps not.
func (w *world) send(from, to *process, f func()) {
	if w.r.Float64() < w.loss || w.cut != nil && w.cut(from.place, to.place) {
		return
	}
	for range 1 + w.r.IntN(20)/19 {
		d := 200*time.Microsecond + time.Duration(w.r.ExpFloat64()*float64(time.Millisecond))
		if w.r.Float64() < w.slow {
			d += time.Duration(w.r.IntN(30)) * time.Millisecond
		}
		w.after(d, func() {
			if !to.dead {
				f()
			}
		})
	}
}

// pump tells what is due, and plans when it is called again.
func (p *process) pump() {
	if p.dead {
		return
	}
	for _, name := range p.records.Expire(p.clock()) {
		if o := p.w.all[name-1]; !o.dead && (p.w.cut == nil || !p.w.cut(p.place, o.place)) {
			p.w.late++
		}
	}
	for _, name := range sortedLinks(p.links) {
		if l := p.links[name]; l.joined {
			if b := p.records.Batch(p.clock(), name); b != nil {
				p.w.told++
				p.tell(name, l, b)
			}
		}
	}
	p.wake()
	if at, ok := p.records.Next(); ok {
		next := max(p.w.now+50*time.Microsecond, at.Sub(time.Unix(epoch, 0))-p.off)
		if p.planned <= p.w.now || next < p.planned {
			p.planned = next
			p.w.at(next, p.pump)
		}
	}
}

// tell sends a batch, until it is answered.
func (p *process) tell(name uint64, l *link, b []byte) {
	w := p.w
	w.serial++
	serial := w.serial
	l.serial = serial
	if l.silent == 0 {
		l.silent = w.now
	}
	w.send(p, l.to, func() {
		_, err := l.to.records.Hear(l.to.clock(), p.name, slices.Clone(b))
		if err != nil {
			panic(err)
		}
		l.to.pump()
		w.send(l.to, p, func() {
			if l.serial != serial || p.links[name] != l {
				return
			}
			l.serial, l.silent = 0, 0
			p.records.Answered(p.clock(), name)
			p.pump()
		})
	})
	w.after(20*time.Millisecond, func() {
		if l.serial != serial || p.dead || p.links[name] != l {
			return
		}
		if w.now-l.silent > 2*time.Second { // dropped, until it answers a hello again
			p.records.Gone(p.clock(), name)
			delete(p.links, name)
			p.hello(l.to, true)
			p.pump()
			return
		}
		l.serial = 0
		p.records.Lost(name)
		p.pump()
	})
}

// hello tries until both have joined; then one pulls the other's records if it has been away.
func (p *process) hello(o *process, pull bool) {
	w := p.w
	if p.dead || o.dead || o.gone || p.gone || p.links[o.name] != nil && p.links[o.name].joined {
		return
	}
	w.send(p, o, func() {
		if o.gone {
			return
		}
		o.join(p)
		w.send(o, p, func() {
			if l := p.links[o.name]; l != nil && l.joined {
				return
			}
			p.join(o)
			if pull {
				p.pull(o, 0, func() {})
				o.pull(p, 0, func() {})
			}
			o.pump()
			p.pump()
		})
	})
	w.after(20*time.Millisecond, func() { p.hello(o, pull) })
}

// pull takes over the records of another, chunk by chunk.
func (p *process) pull(o *process, from uint32, done func()) {
	w, came := p.w, false
	w.send(p, o, func() {
		chunk, next := o.records.Chunk(o.clock(), from)
		w.send(o, p, func() {
			if came {
				return
			}
			came = true
			if err := p.records.TakeOver(p.clock(), chunk); err != nil {
				panic(err)
			}
			if next > 0 {
				p.pull(o, next, done)
				return
			}
			done()
			p.pump()
		})
	})
	w.after(20*time.Millisecond, func() {
		if !came && !p.dead && !o.dead {
			p.pull(o, from, done)
		}
	})
}

// settle waits for the answers to a newcomer's hello, and takes over records.
func (p *process) settle() {
	if p.dead || p.isReady {
		return
	}
	w := p.w
	waits := w.now-p.began < 300*time.Millisecond
	var known []*process
	for _, o := range w.procs {
		if o == p || o.dead || o.gone {
			continue
		}
		switch l := p.links[o.name]; {
		case l != nil && l.joined:
			if o.isReady {
				known = append(known, o)
			}
		case waits:
			w.after(5*time.Millisecond, p.settle)
			return
		}
	}
	switch {
	case len(known) > 0:
		p.pull(known[w.r.IntN(len(known))], 0, p.ready)
		w.after(200*time.Millisecond, p.settle) // it may die meanwhile
	case w.now-p.began > time.Second: // all that knew have ended meanwhile
		w.alone++
		p.ready()
		p.wake()
	default:
		w.after(5*time.Millisecond, p.settle)
	}
}

// restart replaces the process of a place. One that says farewell answers for 400 ms more.
func (w *world) restart(place int, farewell bool) {
	old := w.procs[place]
	old.waits = nil
	if farewell {
		old.gone = true
		old.records.Farewell()
		old.pump()
		w.after(400*time.Millisecond, func() {
			old.dead = true
			for _, o := range w.all {
				if !o.dead && o.links[old.name] != nil {
					delete(o.links, old.name)
					o.records.Gone(o.clock(), old.name)
					for _, n := range w.procs { // a newcomer may not have met the old one
						if n.links[o.name] != nil && w.now-n.began < time.Second {
							n.pull(o, 0, func() {})
						}
					}
					o.pump()
				}
			}
		})
	} else {
		old.dead = true
	}
	p := w.start(place)
	w.procs[place] = p
	w.begun[p.window(0)]++
	for _, o := range w.procs {
		if o != p {
			p.hello(o, false)
		}
	}
	p.settle()
}

// window returns the window of a limit by the clock of p.
func (p *process) window(limit int) int64 {
	return p.clock().UnixMicro() / p.w.limits[limit].Window.Microseconds()
}

// ask sends a request to a place.
func (w *world) ask(place int, cost int64, token limiter.Tally, answer func(bool, limiter.Tally)) {
	if answer == nil {
		answer = func(bool, limiter.Tally) {}
	}
	w.show(place, &waiter{cost: cost, token: token, since: w.now, answer: answer})
}

func (w *world) show(place int, x *waiter) {
	p := w.procs[place]
	if p.gone || p.dead {
		x.answer(false, x.token)
		return
	}
	w.asked++
	x.of = w.asked
	if !p.decide(x) {
		w.waited++
		p.waits = append(p.waits, x)
		w.after(250*time.Millisecond, p.wake)
	}
}

// candidate is what a request shows. A client of a network shows nothing.
func (p *process) candidate(of int, shown limiter.Tally) limiter.Candidate {
	if !p.w.network {
		return limiter.Candidate{Key: p.memory.Key([]byte("client")), Shown: shown}
	}
	return limiter.Candidate{
		Key:      p.memory.Key([]byte{byte(of % 2)}),
		Networks: []limiter.Network{{Key: p.memory.Key([]byte("network")), Policy: p.w.policy.Scale(1)}},
	}
}

// wake decides anew about those that may go on.
func (p *process) wake() {
	if p.dead || p.gone {
		return
	}
	for i := 0; i < len(p.waits); {
		x := p.waits[i]
		freed := false
		select {
		case <-x.freed:
			freed = true
		default:
		}
		late := p.w.now-x.since >= 250*time.Millisecond
		if !freed && !late {
			i++
			continue
		}
		p.waits = slices.Delete(p.waits, i, i+1)
		switch {
		case late:
			p.records.Left(x.limit, x.freed)
			p.memory.GiveBack(x.proof)
			p.w.busy++
			x.answer(false, x.token)
		case !p.decide(x):
			p.waits = slices.Insert(p.waits, i, x)
			i++
		}
	}
}

// decide reports whether a request was answered; else it waits.
func (p *process) decide(x *waiter) bool {
	w := p.w
	x.freed = nil
	for {
		f := p.candidate(x.of, x.token)
		f.Proof = x.proof
		t, v := p.memory.Take(p.clock(), w.policy, &f, x.cost)
		if f.Waits.Key != 0 {
			if x.freed != nil && x.limit == f.Waits { // it has said so
				return false
			}
			if x.freed != nil {
				p.records.Left(x.limit, x.freed)
			}
			room := v.Least(w.policy.Len())
			freed, ok := p.records.Wait(f.Waits, room)
			if !ok {
				p.memory.GiveBack(x.proof)
				w.busy++
				x.answer(false, t)
				return true
			}
			x.freed, x.limit = freed, f.Waits
			continue
		}
		if x.freed != nil {
			p.records.Left(x.limit, x.freed)
		}
		w.longest = max(w.longest, w.now-x.since)
		if !v.Spent {
			w.judge(p, &t, &v, x.cost)
		}
		x.answer(v.Admitted, t)
		return true
	}
}

// judge counts what was admitted, and whether a refusal was right.
func (w *world) judge(p *process, t *limiter.Tally, v *limiter.Verdict, cost int64) {
	us := p.clock().UnixMicro()
	if w.limits[0].Burst > 0 {
		w.judgeBucket(us, v, cost)
		return
	}
	if v.Admitted {
		w.dearest, w.fewest = max(w.dearest, cost), min(w.fewest, 1+len(p.links))
		for i := range w.limits {
			at := w.windowOf(i, t, us)
			w.admitted[i][at] += cost
			w.heard[i][at] += cost
			w.gross[i][at] = max(w.gross[i][at], w.admitted[i][at])
		}
		return
	}
	w.refused++
	fits := func(counted []map[int64]int64) bool {
		for i, l := range w.limits {
			length := l.Window.Microseconds()
			at := w.windowOf(i, t, us)
			before := counted[i][at-1]
			if l.Algorithm == limiter.FixedWindow {
				before = 0
			}
			if !(truth.Window{Quota: l.Quota, Length: length}).Fits(max(0, us-at*length), before, counted[i][at], cost) {
				return false
			}
		}
		return true
	}
	switch {
	case !fits(w.admitted):
	case fits(w.heard):
		w.wrong++
	default:
		w.soon++
	}
}

// judgeBucket does so where the only limit is a bucket.
func (w *world) judgeBucket(us int64, v *limiter.Verdict, cost int64) {
	l := w.limits[0]
	b := truth.Bucket{Quota: l.Quota, Window: l.Window.Microseconds(), Burst: l.Burst}
	if v.Admitted {
		w.drops = append(w.drops, truth.Drop{At: us, Cost: cost, Interval: b.Interval()})
		w.gross[0][us/b.Window] += cost
		return
	}
	w.refused++
	if b.Admits(w.drops, us, cost) {
		w.wrong++
	}
}

func (w *world) windowOf(i int, t *limiter.Tally, us int64) int64 {
	return max(t[i].At, us/w.limits[i].Window.Microseconds())
}

// refund gives back what a process has admitted, as Settle does.
func (w *world) refund(p *process, then time.Time, cost int64) {
	if p.dead || p.gone {
		return
	}
	f := p.candidate(0, limiter.Tally{})
	p.memory.Restore(p.clock(), then, w.policy, &f, cost)
	for i, l := range w.limits {
		at := then.UnixMicro() / l.Window.Microseconds()
		w.admitted[i][at] -= cost
		w.after(time.Second, func() { w.heard[i][at] -= cost })
	}
	p.pump()
}

func sortedLinks(m map[uint64]*link) []uint64 {
	var names []uint64
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
