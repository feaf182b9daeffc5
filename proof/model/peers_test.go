// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/truth"
	"github.com/tallystick/tallystick/storeless"
)

// The worlds of processes that hear each other. What a process does follows from the calls that its records and its
// memory were given. So each step is made once, by the real code, and noted, as of instances that do not talk. The
// network, what is true, and the bound are the model's.

// A fleet is a world of processes that are peers.
type fleet struct {
	limits  []storeless.Limit // two at most, of windows that differ
	n       int               // processes, 2 or 3
	moments []time.Duration   // since the beginning of a window
	skews   [3]time.Duration
	costs   []int64 // of requests; nil: 1
	tokens  bool    // the client may show the newest token
	turns   []int   // the one process that it asks, by moment; nil: any

	// How often what may happen.
	losses, deaths, lates, cuts, refunds int

	doubles  bool // a batch may come again, and later than those after it
	farewell bool // deaths are ends: a process that ends tells what is untold
	alone    bool // a process that starts may get no records
	pauses   bool // lates are of the first process, of the others: these were stopped

	// What the product does not do, and is asked of the model.
	left   bool // the allowance is what is left, divided by 2N, where that is above the slack
	carry  bool // an answer carries all that its sender knows
	hold   bool // an answer to a process that its sender calls late frees nothing
	parts  int  // of the bound, where that is claimed to be less than processes that were called late make it
	beyond int  // by how much more the bound is
}

const (
	processes = 3
	windows   = 4
	names     = 8 // of starts
	begins    = 1_699_999_200
	tellsOnce = 5 * time.Millisecond
	tellsEach = 500 * time.Millisecond
	lateAfter = 100 * time.Millisecond
)

// A kind of step is a method of the records, or of the memory.
type kind uint8

const (
	toTake kind = iota
	toHear
	toBatch
	toAnswered
	toLost
	toExpire
	toJoined
	toGone
	toChunk
	takesOver
	toReady
	toFarewell
	toRefund
	toWait
)

// A step is a call of a process.
type step struct {
	kind   kind
	moment uint8
	of     uint8 // the name that it is of, or the moment of a refund
	cost   uint8
	text   int16 // a batch, a chunk, or what is shown
	chunk  int16 // with an answer
}

// A node is the state of a process.
type node struct {
	slot, name     uint8
	steps          []step
	print          string
	peers          uint16 // by name
	ready, drained bool
	records        [2]known
}

// known is a record of a limit.
type known struct {
	set       bool
	number    int64
	own       [2]uint8
	pairs     [names][2]uint8
	sum, prev int
}

type done struct {
	next           int32
	admitted, wait bool
	shown          int16 // the tally afterwards
	tally          limiter.Tally
	text           int16
	late           uint16 // by name
	back           bool
}

type stepKey struct {
	node int32
	step step
}

type process struct {
	records *gossip.Records
	memory  *limiter.Memory
}

type explorer struct {
	fleet
	policy *limiter.Policy
	all    []node
	number map[string]int32
	after  map[stepKey]*done
	alive  map[int32]*process
	texts  []string
	textOf map[string]int16
	tokens []limiter.Tally
	token  map[limiter.Tally]int16

	most, over int
}

type deed uint8

const (
	itTick deed = iota
	itHasEndedInThePlaceOf
	itLooks
	itGivesBack
	itEnds
	itDrops
	itServesWithoutRecords
	itAsk
	itMeets
	itIsCutOffFrom
	itAsksForTheRecordsOf
	itTakesOverTheRecordsOf
	itSendsABatchTo
	itIsHeardBy
	itHasAnAnswerOf
	itLosesWhatItHasSentTo
	itIsHeardLateBy
)

var deeds = [...]string{
	itTick: "tick", itHasEndedInThePlaceOf: "has ended, in the place of", itLooks: "looks for late peers",
	itGivesBack: "gives back", itEnds: "ends", itDrops: "drops",
	itServesWithoutRecords: "serves without records", itAsk: "ask", itMeets: "meets",
	itIsCutOffFrom: "is cut off from", itAsksForTheRecordsOf: "asks for the records of", itTakesOverTheRecordsOf: "takes over the records of",
	itSendsABatchTo: "sends a batch to", itIsHeardBy: "is heard by", itHasAnAnswerOf: "has an answer of",
	itLosesWhatItHasSentTo: "loses what it has sent to", itIsHeardLateBy: "is heard late by",
}

// An act is one thing that happens.
type act struct {
	what  deed
	a, b  uint8 // processes
	cost  uint8
	shows bool
}

type flight struct {
	stage uint8 // 0: none, 1: it is under way, 2: it was heard
	name  uint8 // of the sender
	text  int16
	chunk int16
}

// A scene is a state of all.
type scene struct {
	node           [processes]int32
	flights, stale [processes][processes]flight
	pulls          [processes][processes]int16 // the records that one waits for; 0: none
	jar            int16
	name           [processes]uint8
	leaving        [processes]bool
	deaf, cut      [processes][processes]bool // it calls the other late; they do not hear each other
	split          [windows]uint8             // pairs that did not, by window
	begun          [windows]uint8
	plus, minus    [2][windows]uint8
	gave           [names][2][windows]uint8
	by             [processes][2][windows]uint8
	first          [processes]uint8 // 1 + the moment of what can be refunded
	drops          [8]uint8         // by moment

	moment, losses, deaths, lates, cuts, refunds, next uint8
}

func (e *explorer) pace(m uint8) time.Time { return time.Unix(begins, 0).Add(e.moments[m]) }
func (e *explorer) wall(m, slot uint8) time.Time {
	return e.pace(m).Add(e.skews[slot])
}

// window returns the place of a window.
func (e *explorer) window(limit int, number int64) int {
	seconds := int64(e.limits[limit].Window / time.Second)
	return int(number - begins/seconds)
}

func newExplorer(f fleet) *explorer {
	if f.costs == nil {
		f.costs = []int64{1}
	}
	policy, err := limiter.Compile("peers", f.limits)
	if err != nil {
		panic(err)
	}
	return &explorer{
		fleet: f, policy: policy, number: map[string]int32{}, after: map[stepKey]*done{}, alive: map[int32]*process{},
		texts: []string{""}, textOf: map[string]int16{"": 0}, tokens: []limiter.Tally{{}}, token: map[limiter.Tally]int16{{}: 0},
	}
}

func (e *explorer) text(b []byte) int16 {
	n, known := e.textOf[string(b)]
	if !known {
		n = int16(len(e.texts))
		e.textOf[string(b)], e.texts = n, append(e.texts, string(b))
	}
	return n
}

func (e *explorer) tokenOf(t limiter.Tally) int16 {
	n, known := e.token[t]
	if !known {
		n = int16(len(e.tokens))
		e.token[t], e.tokens = n, append(e.tokens, t)
	}
	return n
}

// begin returns a process that has just started.
func (e *explorer) begin(slot, name uint8) int32 {
	n := node{slot: slot, name: name}
	p := e.replay(&n)
	return e.named(n, p, 0)
}

func (e *explorer) replay(n *node) *process {
	p := &process{gossip.New(gossip.Config{Name: uint64(n.name) + 1, Records: 1}), limiter.NewMemory(1, len(e.limits))}
	p.memory.Join(p.records, "peers")
	for i := range n.steps {
		e.play(p, n, &n.steps[i])
	}
	return p
}

// do gives a process a step.
func (e *explorer) do(at int32, s step) *done {
	key := stepKey{at, s}
	if d, known := e.after[key]; known {
		return d
	}
	n := e.all[at]
	p := e.alive[at]
	if p == nil {
		p = e.replay(&n)
	}
	delete(e.alive, at)
	d := e.play(p, &n, &s)
	d.next = e.named(node{slot: n.slot, name: n.name, steps: append(slices.Clone(n.steps), s)}, p, s.moment)
	if d.next != at {
		e.alive[d.next] = p
	}
	e.after[key] = &d
	return &d
}

func (e *explorer) play(p *process, n *node, s *step) (d done) {
	pace, wall, of := e.pace(s.moment), e.wall(s.moment, n.slot), uint64(s.of)+1
	r := p.records
	switch s.kind {
	case toTake:
		f := limiter.Candidate{Key: p.memory.Key([]byte("client")), Shown: e.tokens[s.text]}
		if e.left {
			quota, u := e.limits[0].Quota, int64(r.Stats().Unacked)
			m := quota - p.memory.Peek(wall, e.policy, &f, 0).Limits[0].Remaining
			f.Hasty = u > 0 && u+int64(s.cost) <= e.allowance(quota, m)
		}
		t, v := p.memory.Take(wall, e.policy, &f, int64(s.cost))
		d.admitted, d.wait, d.tally = v.Admitted, f.Waits.Key != 0, t
		d.shown = e.tokenOf(t)
		if d.wait {
			if freed, ok := r.Wait(f.Waits, max(1, v.Least(len(e.limits)))); ok {
				r.Left(f.Waits, freed)
			}
		}
	case toHear:
		if _, err := r.Hear(wall, of, []byte(e.texts[s.text])); err != nil {
			panic(err)
		}
	case toBatch:
		d.text = e.text(r.Batch(pace, of))
	case toAnswered:
		if s.chunk > 0 {
			e.must(r.TakeOver(wall, []byte(e.texts[s.chunk])))
		}
		d.back, _ = r.Answered(pace, of)
	case toLost:
		r.Lost(of)
	case toExpire:
		for _, name := range r.Expire(pace) {
			d.late |= 1 << (name - 1)
		}
	case toJoined:
		r.Joined(pace, of)
	case toGone:
		r.Gone(wall, of)
	case toChunk:
		b, _ := r.Chunk(wall, 0)
		d.text = e.text(b)
	case takesOver:
		e.must(r.TakeOver(wall, []byte(e.texts[s.text])))
	case toReady:
		r.Ready()
	case toFarewell:
		r.Farewell()
	case toRefund:
		f := limiter.Candidate{Key: p.memory.Key([]byte("client"))}
		p.memory.Restore(wall, e.wall(s.of, n.slot), e.policy, &f, 1)
	case toWait: // time goes on
	}
	return d
}

func (e *explorer) must(err error) {
	if err != nil {
		panic(err)
	}
}

// slackOf is the slack, by the table of bounds.
func slackOf(quota int64, n int) int64 {
	if quota < 2*int64(n) {
		return 1
	}
	return max(2, (quota+49)/50)
}

// allowance is the slack, or what is left divided by twice the processes.
func (e *explorer) allowance(quota, used int64) int64 {
	f := slackOf(quota, e.n)
	if e.left {
		f = max(f, (quota-used+2*int64(e.n)-1)/(2*int64(e.n)))
	}
	return f
}

// named returns the number of a node, after it has read what is in the process.
func (e *explorer) named(n node, p *process, moment uint8) int32 {
	e.look(&n, p, moment)
	at, known := e.number[n.print]
	if !known {
		at = int32(len(e.all))
		e.number[n.print], e.all = at, append(e.all, n)
	}
	return at
}

// look reads all that is in a process. Running numbers are told by their order, and times by what may yet follow
// from them: processes that do the same from now on are one.
func (e *explorer) look(n *node, p *process, moment uint8) {
	pace := e.pace(moment).UnixMicro()
	r := reflect.ValueOf(p.records).Elem()
	number := func(v reflect.Value, field string) uint64 {
		switch f := v.FieldByName(field); f.Kind() {
		case reflect.Bool:
			if f.Bool() {
				return 1
			}
			return 0
		case reflect.Int, reflect.Int64:
			return uint64(f.Int())
		default:
			return f.Uint()
		}
	}
	var numbers []uint64
	peers := r.FieldByName("peers")
	for _, k := range peers.MapKeys() {
		n.peers |= 1 << (k.Uint() - 1)
		o := peers.MapIndex(k).Elem()
		numbers = append(numbers, number(o, "acked"), number(o, "flying"))
	}
	keys, all := r.FieldByName("keys"), r.FieldByName("all")
	others := r.FieldByName("others")
	numbers = append(numbers, number(r, "seq"), number(r, "acked"))
	for at := range keys.Len() {
		if keys.Index(at).Uint() != 0 {
			rec := all.Index(at)
			numbers = append(numbers, number(rec.FieldByName("told"), "seq"), number(rec.FieldByName("older"), "seq"))
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(append([]uint64{0}, numbers...))
	b := []byte{n.slot, n.name}
	put := func(x uint64) { b = binary.AppendUvarint(b, x) }
	rank := func(x uint64) { put(uint64(slices.Index(numbers, x))) }
	since := func(us uint64, least time.Duration) { // a time, as far as it matters
		if us > 0 {
			us = uint64(max(int64(us), pace-least.Microseconds()))
		}
		put(us)
	}
	for _, f := range []string{"live", "haste", "ready", "leaving", "oldest"} {
		put(number(r, f))
	}
	put(number(r, "wall") / 1_000_000 / 10)
	since(number(r, "round"), tellsEach)
	rank(number(r, "seq"))
	rank(number(r, "acked"))
	for i := range others.Len() {
		put(others.Index(i).Uint())
	}
	for name := range uint64(names) {
		if o := peers.MapIndex(reflect.ValueOf(name + 1)); o.IsValid() {
			o = o.Elem()
			put(name + 1)
			rank(number(o, "acked"))
			rank(number(o, "flying"))
			since(number(o, "owes"), lateAfter)
			since(number(o, "last"), tellsOnce)
			put(number(o, "late"))
		}
	}
	sizes, here := r.FieldByName("sizes"), peers.Len()+1
	for i := range sizes.Len() { // what makes a slack smaller than the processes of now do
		was, until := int(number(sizes.Index(i), "processes")), int64(number(sizes.Index(i), "until"))
		for _, l := range e.limits {
			if w := int64(l.Window / time.Second); until/w == e.wall(moment, n.slot).Unix()/w && slackOf(l.Quota, was) != slackOf(l.Quota, here) {
				put(3000 + uint64(was))
			}
		}
	}
	dirty := r.FieldByName("dirty")
	for i := range dirty.Len() {
		put(1000 + dirty.Index(i).Uint())
	}
	pair := func(v reflect.Value) (p [2]uint8) {
		p = [2]uint8{uint8(number(v, "plus")), uint8(number(v, "minus"))}
		b = append(b, p[0], p[1])
		return p
	}
	for at := range keys.Len() {
		if keys.Index(at).Uint() == 0 {
			continue
		}
		rec := all.Index(at)
		b = append(b, 'r', byte(at))
		for _, f := range []string{"seconds", "number", "others", "prev", "back", "prevBack", "dirty"} {
			put(number(rec, f))
		}
		k := known{set: true, number: int64(number(rec, "number")), own: pair(rec.FieldByName("own")), prev: int(number(rec, "prev"))}
		pair(rec.FieldByName("base"))
		for _, f := range []string{"told", "older"} {
			rank(number(rec.FieldByName(f), "seq"))
			pair(rec.FieldByName(f).FieldByName("own"))
		}
		k.sum = int(k.own[0]) - int(k.own[1]) + int(number(rec, "others"))
		for i, pairs := 0, rec.FieldByName("pairs"); i < others.Len(); i++ {
			if i < pairs.Len() {
				k.pairs[others.Index(i).Uint()-1] = pair(pairs.Index(i))
			} else {
				b = append(b, 0, 0)
			}
		}
		for i, l := range e.limits {
			if uint64(l.Window/time.Second) == number(rec, "seconds") {
				n.records[i] = k
			}
		}
	}
	columns := reflect.ValueOf(p.memory).Elem().FieldByName("counts").FieldByName("columns")
	list := reflect.NewAt(columns.Type().Field(0).Type.Elem().Elem(), unsafe.Pointer(columns.FieldByName("v").Pointer())).Elem()
	for i := range list.Len() {
		cells := list.Index(i).Elem().FieldByName("cells")
		for j := range cells.Len() {
			if c := cells.Index(j); number(c, "Tag")|number(c, "Value") != 0 {
				b = append(b, 'c', byte(i))
				put(number(c, "Expires"))
				put(number(c, "Value"))
			}
		}
	}
	n.ready, n.drained, n.print = number(r, "ready") == 1, p.records.Drained(), string(b)
}

func (e *explorer) start() scene {
	s := scene{next: uint8(e.n)}
	for i := range e.n {
		at := e.begin(uint8(i), uint8(i))
		for j := range e.n {
			if i != j {
				at = e.do(at, step{kind: toJoined, of: uint8(j)}).next
			}
		}
		s.node[i], s.name[i] = e.do(at, step{kind: toReady}).next, uint8(i)
	}
	return s
}

// told says what happens by acts.
func (e *explorer) told(all []act) (lines []string) {
	moment := 0
	for _, a := range all {
		switch a.what {
		case itTick:
			moment++
			lines = append(lines, fmt.Sprintf("it is %v", e.moments[moment]))
		case itAsk:
			lines = append(lines, fmt.Sprintf("%d is asked for %d", a.a, a.cost))
		default:
			lines = append(lines, fmt.Sprintf("%d %s %d", a.a, deeds[a.what], a.b))
		}
	}
	return lines
}

// acts yields all that may happen.
func (e *explorer) acts(s *scene, yield func(act, scene, string)) {
	do := func(next *scene, i int, st step) *done {
		st.moment = next.moment
		d := e.do(next.node[i], st)
		next.node[i] = d.next
		return d
	}
	if int(s.moment)+1 < len(e.moments) {
		next := *s
		next.moment++
		for i := range e.n {
			do(&next, i, step{kind: toWait})
		}
		yield(act{what: itTick}, next, e.check(&next))
	}
	for i := range e.n {
		is := &e.all[s.node[i]]
		if s.leaving[i] {
			if next := *s; is.drained {
				e.end(&next, i)
				yield(act{what: itHasEndedInThePlaceOf, a: uint8(i), b: uint8(i)}, next, e.check(&next))
			}
		} else if is.ready || e.hasMet(s, i) {
			e.asks(s, i, yield)
		}
		if next := *s; int(s.lates) < e.lates && (i == 0 || !e.pauses) {
			d := do(&next, i, step{kind: toExpire})
			if next.node[i] != s.node[i] || d.late != 0 {
				next.lates += uint8(min(1, d.late))
				for j := range e.n {
					if d.late>>s.name[j]&1 != 0 && j != i {
						next.deaf[i][j] = true
					}
				}
				yield(act{what: itLooks, a: uint8(i)}, next, e.check(&next))
			}
		}
		if next := *s; s.first[i] > 0 && int(s.refunds) < e.refunds && !s.leaving[i] {
			next.refunds++
			e.refund(&next, i)
			do(&next, i, step{kind: toRefund, of: s.first[i] - 1})
			yield(act{what: itGivesBack, a: uint8(i)}, next, e.check(&next))
		}
		if next := *s; int(s.deaths) < e.deaths && !s.leaving[i] && is.ready {
			next.deaths++
			if e.farewell {
				next.leaving[i] = true
				do(&next, i, step{kind: toFarewell})
			} else {
				e.end(&next, i)
			}
			yield(act{what: itEnds, a: uint8(i), b: uint8(i)}, next, e.check(&next))
		}
		for name := range uint8(names) { // those that have died are dropped
			if next := *s; is.peers>>name&1 != 0 && !slices.Contains(s.name[:e.n], name) {
				do(&next, i, step{kind: toGone, of: name})
				yield(act{what: itDrops, a: uint8(i), b: name}, next, e.check(&next))
			}
		}
		if next := *s; e.alone && !is.ready {
			do(&next, i, step{kind: toReady})
			next.pulls[i] = [processes]int16{}
			for j := range e.n {
				if j != i {
					do(&next, i, step{kind: toGone, of: s.name[j]})
					do(&next, j, step{kind: toGone, of: s.name[i]})
					next.cut[min(i, j)][max(i, j)] = true
					next.flights[i][j], next.flights[j][i] = flight{}, flight{}
				}
			}
			yield(act{what: itServesWithoutRecords, a: uint8(i)}, next, e.check(&next))
		}
		for j := range e.n {
			if i != j {
				e.between(s, i, j, do, yield)
			}
		}
	}
}

// between is what happens between two processes.
func (e *explorer) between(s *scene, i, j int, do func(*scene, int, step) *done, yield func(act, scene, string)) {
	a, b := &e.all[s.node[i]], &e.all[s.node[j]]
	tell := func(what deed, next scene) {
		yield(act{what: what, a: uint8(i), b: uint8(j)}, next, e.check(&next))
	}
	joined := a.peers>>s.name[j]&1 != 0 && b.peers>>s.name[i]&1 != 0
	if !joined {
		if next := *s; i < j && !s.leaving[i] && !s.leaving[j] {
			for _, of := range [][2]int{{i, j}, {j, i}} {
				do(&next, of[0], step{kind: toGone, of: s.name[of[1]]})
				do(&next, of[0], step{kind: toJoined, of: s.name[of[1]]})
			}
			if s.cut[i][j] {
				next.cut[i][j] = false
				for _, of := range [][2]int{{i, j}, {j, i}} {
					next.pulls[of[0]][of[1]] = do(&next, of[1], step{kind: toChunk}).text
				}
			}
			tell(itMeets, next)
		}
		return
	}
	if next := *s; i < j && int(s.cuts) < e.cuts && a.ready && b.ready {
		next.cuts++
		next.cut[i][j] = true
		for _, of := range [][2]int{{i, j}, {j, i}} {
			do(&next, of[0], step{kind: toGone, of: s.name[of[1]]})
			next.flights[of[0]][of[1]] = flight{}
		}
		tell(itIsCutOffFrom, next)
	}
	if next := *s; !a.ready && b.ready && s.pulls[i] == [processes]int16{} && e.hasMet(s, i) {
		next.pulls[i][j] = do(&next, j, step{kind: toChunk}).text
		tell(itAsksForTheRecordsOf, next)
	}
	if s.pulls[i][j] > 0 {
		next := *s
		do(&next, i, step{kind: takesOver, text: s.pulls[i][j]})
		do(&next, i, step{kind: toReady})
		next.pulls[i][j] = 0
		tell(itTakesOverTheRecordsOf, next)
	}
	switch f := s.flights[i][j]; {
	case f.stage == 0:
		next := *s
		d := do(&next, i, step{kind: toBatch, of: s.name[j]})
		if d.text > 0 {
			next.flights[i][j] = flight{stage: 1, name: s.name[i], text: d.text}
		}
		if next != *s {
			tell(itSendsABatchTo, next)
		}
	default:
		if next := *s; f.stage == 1 || e.doubles {
			do(&next, j, step{kind: toHear, of: s.name[i], text: f.text})
			next.flights[i][j].stage = 2
			if e.carry {
				next.flights[i][j].chunk = do(&next, j, step{kind: toChunk}).text
			}
			tell(itIsHeardBy, next)
		}
		if next := *s; f.stage == 2 && !(e.hold && s.deaf[j][i]) {
			d := do(&next, i, step{kind: toAnswered, of: s.name[j], chunk: f.chunk})
			next.flights[i][j] = flight{}
			if d.back {
				next.deaf[i][j] = false
			}
			if e.doubles {
				next.stale[i][j] = flight{name: f.name, text: f.text}
			}
			tell(itHasAnAnswerOf, next)
		}
		if next := *s; int(s.losses) < e.losses {
			next.losses++
			do(&next, i, step{kind: toLost, of: s.name[j]})
			next.flights[i][j] = flight{}
			if e.doubles {
				next.stale[i][j] = flight{name: f.name, text: f.text}
			}
			tell(itLosesWhatItHasSentTo, next)
		}
	}
	if f := s.stale[i][j]; f.text > 0 {
		next := *s
		do(&next, j, step{kind: toHear, of: f.name, text: f.text})
		tell(itIsHeardLateBy, next)
	}
}

// hasMet reports whether a process that starts has met all that are there.
func (e *explorer) hasMet(s *scene, i int) bool {
	for j := range e.n {
		if j != i && e.all[s.node[i]].peers>>s.name[j]&1 == 0 {
			return false
		}
	}
	return true
}

// end has a process die, and another start in its place.
func (e *explorer) end(s *scene, i int) {
	for j := range e.n {
		if f := s.flights[i][j]; f.stage == 1 { // it may come yet
			s.stale[i][j] = flight{name: f.name, text: f.text}
		}
		s.flights[i][j], s.flights[j][i], s.pulls[i][j] = flight{}, flight{}, 0
		s.stale[j][i] = flight{}
		s.deaf[i][j], s.deaf[j][i], s.cut[i][j], s.cut[j][i] = false, false, false, false
	}
	s.name[i], s.leaving[i], s.first[i] = s.next, false, 0
	s.next++
	s.by[i] = [2][windows]uint8{}
	s.begun[e.window(0, e.wall(s.moment, uint8(i)).Unix()/int64(e.limits[0].Window/time.Second))]++
	s.node[i] = e.do(e.begin(uint8(i), s.name[i]), step{kind: toWait, moment: s.moment}).next
}

// asks are the requests to a process.
func (e *explorer) asks(s *scene, i int, yield func(act, scene, string)) {
	if e.turns != nil && e.turns[s.moment] != i {
		return
	}
	for _, cost := range e.costs {
		for show := range 2 {
			if show == 1 && (!e.fleet.tokens || s.jar == 0) {
				break
			}
			next, st := *s, step{kind: toTake, moment: s.moment, cost: uint8(cost)}
			if show == 1 {
				st.text = s.jar
			}
			d := e.do(s.node[i], st)
			next.node[i] = d.next
			fault := e.asked(s, &next, i, cost, d)
			yield(act{what: itAsk, a: uint8(i), cost: uint8(cost), shows: show == 1}, next, cmp.Or(fault, e.check(&next)))
		}
	}
}

// asked holds an answer against what is true.
func (e *explorer) asked(s, next *scene, i int, cost int64, d *done) string {
	was, is := &e.all[s.node[i]], &e.all[next.node[i]]
	switch {
	case d.wait:
		return e.waits(s, i, is)
	case !d.admitted:
		for l := range e.limits {
			if was.records[l].number == is.records[l].number && was.records[l].own != is.records[l].own {
				return "a refusal is counted"
			}
		}
		return e.refused(s, i, cost, d)
	}
	next.first[i] = max(next.first[i], s.moment+1)
	if e.fleet.tokens {
		next.jar = d.shown
	}
	next.drops[s.moment] += uint8(cost)
	for l, limit := range e.limits {
		at := d.tally[l].At
		if limit.Burst > 0 {
			at = e.wall(s.moment, uint8(i)).Unix() / int64(limit.Window/time.Second)
		}
		w := e.window(l, at)
		next.plus[l][w] += uint8(cost)
		next.by[i][l][w] += uint8(cost)
		if rec := &is.records[l]; !rec.set || rec.number == at && rec.own[0] != next.by[i][l][w] {
			return "what is admitted is not told"
		}
		if l == 0 {
			for a := range e.n {
				for b := range a {
					if s.deaf[a][b] || s.deaf[b][a] || s.cut[b][a] || (s.pulls[a][b]|s.pulls[b][a]) > 0 && e.all[s.node[a]].ready && e.all[s.node[b]].ready {
						next.split[w] |= 1 << (a + b)
					}
				}
			}
		}
		got, most := int(next.plus[l][w])-int(next.minus[l][w]), e.bound(next, l, w, cost)
		if got > e.most {
			e.most, e.over = got, most
		}
		if got > most {
			return fmt.Sprintf("%d are admitted, and %d is the bound", got, most)
		}
		if fault := e.ignorant(next, i, l, cost); fault != "" {
			return fault
		}
	}
	return ""
}

// bound is what the table of bounds says.
func (e *explorer) bound(s *scene, l, w int, cost int64) int {
	limit := e.limits[l]
	p := 1
	switch split := s.split[min(w, windows-1)]; {
	case e.parts > 0:
		p = e.parts
	case split == 0b1110 && e.n == 3: // pairs are 0+1, 0+2, 1+2
		p = 3
	case split != 0:
		p = 2
	}
	if l > 0 {
		p = 1
		for _, split := range s.split {
			if split != 0 {
				p = 2
			}
		}
	}
	started := 0
	for _, n := range s.begun {
		started += int(n)
	}
	if l == 0 {
		started = int(s.begun[w])
	}
	one, k := int(limit.Quota), max(e.allowance(limit.Quota, 0), slices.Max(e.costs))
	if limit.Burst > 0 {
		one = int(limit.Burst + limit.Quota)
	}
	return p*one + (e.n+started-p)*int(k) + e.beyond
}

// ignorant holds an admission against the slack: of what a process has admitted, no peer that it waits for lacks more.
func (e *explorer) ignorant(s *scene, i, l int, cost int64) string {
	if e.carry || e.hold {
		return ""
	}
	rec, f := &e.all[s.node[i]].records[l], e.allowance(e.limits[l].Quota, 0)
	if !e.all[s.node[i]].ready {
		return ""
	}
	for j := range e.n {
		other := &e.all[s.node[j]]
		if j == i || s.deaf[i][j] || s.cut[min(i, j)][max(i, j)] || s.pulls[j][i] > 0 || !other.ready || e.all[s.node[i]].peers>>s.name[j]&1 == 0 {
			continue
		}
		o := &other.records[l]
		seconds := int64(e.limits[l].Window / time.Second)
		if o.set && o.number != rec.number || e.wall(s.moment, uint8(j)).Unix()/seconds > rec.number {
			continue // it admits nothing in that window any more
		}
		if lacks := int64(rec.own[0]) - int64(o.pairs[s.name[i]][0]); lacks > max(f, cost) {
			return fmt.Sprintf("a peer lacks %d, and the slack is %d", lacks, f)
		}
	}
	return ""
}

// waits holds a wait against what a process may wait for.
func (e *explorer) waits(s *scene, i int, after *node) string {
	n := &e.all[s.node[i]]
	live := 0
	for j := range e.n {
		if j != i && n.peers>>s.name[j]&1 != 0 && !s.deaf[i][j] {
			live++
		}
	}
	for name := range uint8(names) {
		if n.peers>>name&1 != 0 && !slices.Contains(s.name[:e.n], name) {
			live++ // it has died, and is dropped yet
		}
	}
	if n.ready && live == 0 {
		return "a request waits for no peer"
	}
	if n.ready && after.drained {
		return "a request waits, and nothing is to be told or answered"
	}
	return ""
}

// refused holds a refusal against what is true.
func (e *explorer) refused(s *scene, i int, cost int64, d *done) string {
	us := e.wall(s.moment, uint8(i)).UnixMicro()
	if limit := e.limits[0]; limit.Burst > 0 {
		b := truth.Bucket{Quota: limit.Quota, Window: limit.Window.Microseconds(), Burst: limit.Burst}
		var drops []truth.Drop
		for m, n := range s.drops[:s.moment+1] {
			if n > 0 {
				drops = append(drops, truth.Drop{At: e.pace(uint8(m)).UnixMicro(), Cost: int64(n), Interval: b.Interval()})
			}
		}
		if b.Admits(drops, us, cost) {
			return "a client is refused that is under its limit"
		}
		return ""
	}
	for l, limit := range e.limits {
		length := limit.Window.Microseconds()
		at := max(d.tally[l].At, us/length)
		w := e.window(l, at)
		count := func(w int) int64 { // what was given back and is not heard of yet counts
			if w < 0 {
				return 0
			}
			n := int64(s.plus[l][w]) - int64(s.minus[l][w])
			for name := range names {
				if name != int(s.name[i]) {
					n += int64(s.gave[name][l][w])
				}
			}
			if rec := &e.all[s.node[i]].records[l]; rec.set && e.window(l, rec.number) == w {
				for name, p := range rec.pairs {
					if name != int(s.name[i]) {
						n -= int64(p[1])
					}
				}
			}
			return n
		}
		before := count(w - 1)
		if limit.Algorithm == storeless.FixedWindow {
			before = 0
		}
		if !(truth.Window{Quota: limit.Quota, Length: length}).Fits(max(0, us-at*length), before, count(w), cost) {
			return ""
		}
	}
	return "a client is refused that is under its limit"
}

// refund notes what is given back.
func (e *explorer) refund(s *scene, i int) {
	for l := range e.limits {
		w := e.window(l, e.wall(s.first[i]-1, uint8(i)).Unix()/int64(e.limits[l].Window/time.Second))
		if s.by[i][l][w] > s.gave[s.name[i]][l][w] {
			s.minus[l][w]++
			s.gave[s.name[i]][l][w]++
		}
	}
	s.first[i] = 0
}

// check holds what all know against what is true.
func (e *explorer) check(s *scene) string {
	for i := range e.n {
		for l := range e.limits {
			rec := &e.all[s.node[i]].records[l]
			w := e.window(l, rec.number)
			if !rec.set || w < 0 || w >= windows {
				continue
			}
			heard := 0
			for name, p := range rec.pairs {
				if name != int(s.name[i]) {
					heard += int(s.gave[name][l][w]) - int(p[1])
				}
			}
			if rec.sum > int(s.plus[l][w])-int(s.minus[l][w])+max(0, heard) {
				return "a process counts more than the truth"
			}
			if w > 0 && rec.prev > int(s.plus[l][w-1]) {
				return "a process counts more than the truth of the window before"
			}
		}
	}
	return ""
}
