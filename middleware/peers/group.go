// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
)

const (
	tendEvery   = 250 * time.Millisecond
	statusEvery = time.Second
	patience    = time.Minute     // a list may differ, or lack this process, for as long as a deploy takes
	skew        = 5 * time.Second // of clocks
	greeting    = 2 * time.Second // for a connection until the other end has shown a secret
	strangers   = 256             // connections at most that have not
)

// A peer is one start of another process.
type peer struct {
	name    uint64
	address string
	wire    *wire // nil: there is no connection now
	late    bool
	met     time.Time
	heard   time.Time // the last frame
	status  time.Time // the last that it was sent
	differs time.Time // since when it has another list

	// Our era is another each time that this process begins anew with the peer, which then asks for our records.
	era     uint64
	theirs  uint64 // era, as it has told; 0: not yet. When it tells one, it tells us what it counts from then on
	pulled  uint64 // the era of theirs whose records were asked for
	ready   bool   // it has the records of its fleet
	pulling bool
	place   uint32 // of the chunk that it is asked for
}

// A Group is this process among its peers. It is safe for concurrent use.
type Group struct {
	cfg      Config
	records  *gossip.Records
	ours     hello
	dns      resolver
	listener net.Listener
	wake     chan struct{} // something is to be told
	news     chan struct{} // Open and Close look again

	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup
	once  sync.Once
	err   error // of Close

	mu sync.Mutex
	alarms
	roster    roster
	peers     map[uint64]*peer
	era       uint64
	due       time.Time           // when run looks again
	opened    time.Time           // where the clock of pace begins
	listedAt  time.Time           // when the list had this process last
	counted   time.Time           // when it was last looked for evicted records
	evicted   uint64              // as there were then
	ready     byte                // 1: it has the records of its fleet, or must do without
	leaving   bool                // it greets none
	left      bool                // it has said farewell
	unknown   [strangers]net.Conn // connections that have not shown a secret
	next      int                 // where the next has its place
	strangers uint64
	gone      uint64
}

// unlock unlocks mu, and writes what there is to say: a log may be slow, and so may a connection.
func (g *Group) unlock() {
	later := g.later
	g.later = nil
	g.mu.Unlock()
	for _, write := range later {
		write()
	}
}

// accept takes connections until the listener is closed.
func (g *Group) accept() {
	for {
		conn, err := g.listener.Accept()
		g.mu.Lock()
		switch leaving := g.leaving; {
		case err == nil:
			i := g.next % strangers
			g.next++
			if g.unknown[i] != nil {
				_ = g.unknown[i].Close() // it has had its place for longest; a peer needs one for milliseconds
			}
			g.unknown[i] = conn
			g.ended.Go(func() { g.serve(conn, &g.unknown[i]) })
			g.mu.Unlock()
		case leaving:
			g.mu.Unlock()
			return
		default:
			g.ring(deafAlarm, "", "error", err)
			g.unlock()
			select {
			case <-g.ctx.Done():
			case <-time.After(tendEvery):
			}
		}
	}
}

// serve hears a connection of another.
func (g *Group) serve(conn net.Conn, place *net.Conn) {
	var kind byte
	var content []byte
	w, err := g.shake(conn, "", receive)
	if err == nil { // a recorded hello is good, but only an end that has the secret can make the first frame
		kind, content, err = w.read()
	}
	g.mu.Lock()
	if *place == conn {
		*place = nil
	}
	if w == nil {
		g.strangers++
	}
	if errors.Is(err, errStranger) || errors.Is(err, errMalformed) { // others do no more than see whether the port is open
		from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		g.ring(strangerAlarm, "", "from", from, "error", err)
	}
	g.unlock()
	if err != nil {
		_ = conn.Close()
	} else if p := g.meet(w); p != nil && g.handle(p, w, kind, content) {
		g.hear(p, w)
	}
}

// dial greets an address, and hears what answers there.
func (g *Group) dial(t *target) {
	ctx, cancel := context.WithTimeout(g.ctx, greeting)
	defer cancel()
	var w *wire
	conn, err := g.cfg.Dial(ctx, "tcp", t.address)
	if err == nil {
		unless := context.AfterFunc(g.ctx, func() { _ = conn.Close() })
		if w, err = g.shake(conn, t.address, greet); err != nil {
			_ = conn.Close()
		}
		unless()
	}
	var p *peer
	if err == nil {
		p = g.meet(w)
	}
	g.mu.Lock()
	t.dialing, t.err = false, err
	if err == nil {
		t.name, t.answered = w.theirs.name, time.Now()
	}
	g.mu.Unlock()
	poke(g.news)
	if p != nil {
		g.hear(p, w)
	}
}

// shake has both ends show a secret. There is a wire with an error if the other end has one and speaks another version.
func (g *Group) shake(conn net.Conn, address string, say func(io.ReadWriter, hello, [][]byte) (*session, error)) (*wire, error) {
	_ = conn.SetDeadline(time.Now().Add(greeting))
	ours, secured := g.ours, conn
	ours.address = g.cfg.here(conn)
	if c := g.cfg.TLS; c != nil && address == "" {
		secured = tls.Server(conn, c)
	} else if c != nil {
		c = c.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(address)
		}
		secured = tls.Client(conn, c)
	}
	s, err := say(secured, ours, g.cfg.Secrets)
	if s == nil {
		return nil, err
	}
	if err != nil {
		g.mu.Lock()
		g.ring(versionAlarm, s.theirs.address, "error", err)
		g.unlock()
	}
	return newWire(s, conn, secured, address != ""), err
}

// meet takes a wire for the one of its peer. Where both ends have dialed, both keep what the lesser name has dialed.
// It returns nil if it has closed the wire.
func (g *Group) meet(w *wire) *peer {
	g.mu.Lock()
	defer g.unlock()
	now, name := time.Now(), w.theirs.name
	p := g.peers[name]
	many := p == nil && len(g.peers) >= maxMembers-1
	if many {
		g.ring(manyAlarm, w.theirs.address)
	}
	lives := p != nil && p.wire != nil && now.Sub(p.heard) < 2*statusEvery
	if name == g.ours.name || g.ctx.Err() != nil || many || lives && p.wire.dialed != w.dialed && w.dialed != (g.ours.name < name) {
		w.close()
		return nil
	}
	if p == nil {
		g.era++
		p = &peer{name: name, address: w.theirs.address, met: now, era: g.era}
		g.peers[name] = p
		g.records.Joined(g.pace(), name)
		g.over(p.address, answers)
	} else {
		g.records.Lost(name)
	}
	if p.wire != nil {
		p.wire.close()
	}
	if w.theirs.fingerprint != g.ours.fingerprint {
		g.ring(secretsAlarm, p.address)
	}
	p.wire, p.heard = w, now
	_ = w.w.SetDeadline(time.Time{})
	g.say(p, false)
	g.say(p, true)
	if p.pulling {
		p.pulled = 0 // all is asked for again, when it says which era it is
	}
	if g.left {
		g.post(w, farewellFrame, nil, nil)
	}
	poke(g.wake)
	poke(g.news)
	return p
}

// say sends a peer how this process is, and the addresses of those that it hears. The first frame has no room for them, and no era: so a
// process that starts waits for the next one.
func (g *Group) say(p *peer, room bool) {
	if p.wire == nil {
		return
	}
	p.status = time.Now()
	b := binary.BigEndian.AppendUint64(nil, uint64(g.cfg.Now().UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, g.roster.digest)
	era := p.era
	if !room {
		era = 0
	}
	b = append(binary.BigEndian.AppendUint64(b, era), g.ready)
	for _, o := range g.peers {
		if room && o.wire != nil && o != p {
			b = append(append(b, o.address...), '\n')
		}
	}
	g.post(p.wire, statusFrame, nil, b)
}

// post has a frame written when mu is unlocked. What is posted to one wire keeps its order.
func (g *Group) post(w *wire, kind byte, head, content []byte) {
	w.put(kind, head, content)
	g.later = append(g.later, w.flush)
}

// pull asks a peer for all of its records, beginning with the first chunk.
func (g *Group) pull(p *peer) {
	p.pulled, p.pulling, p.place = p.theirs, true, 0
	g.want(p)
}

// want asks a peer for a chunk.
func (g *Group) want(p *peer) {
	if p.wire != nil {
		g.post(p.wire, wantFrame, binary.BigEndian.AppendUint32(nil, p.place), nil)
	}
}

// hear hears a peer until the wire ends.
func (g *Group) hear(p *peer, w *wire) {
	kind, content, err := w.read()
	for err == nil && g.handle(p, w, kind, content) {
		kind, content, err = w.read()
	}
	w.close()
	g.mu.Lock()
	if errors.Is(err, errForged) || errors.Is(err, errLong) {
		g.ring(malformedAlarm, p.address, "error", err)
	}
	if p.wire == w {
		p.wire = nil
	}
	g.unlock()
	poke(g.news)
}

// handle does what a frame asks for, and reports whether to go on.
func (g *Group) handle(p *peer, w *wire, kind byte, content []byte) bool {
	g.mu.Lock()
	defer g.unlock()
	if p.wire != w {
		return false
	}
	p.heard = time.Now()
	var err error
	switch {
	case kind == tellFrame:
		var ahead time.Duration
		if ahead, err = g.records.Hear(g.cfg.Now(), p.name, content); err != nil {
			break
		}
		if ahead != 0 {
			g.ring(clockAlarm, p.address, "ahead", ahead.Round(100*time.Millisecond))
		}
		w.unread.Store(0) // it has read the last answer
		g.post(w, answerFrame, nil, nil)
	case kind == answerFrame:
		back, ok := g.records.Answered(g.pace(), p.name)
		if !ok {
			err = errFrame
			break
		}
		w.unread.Store(0)
		if back {
			p.late = false
			g.over(p.address, answers)
		}
		if at, ok := g.records.Next(); ok && at.Before(g.due) {
			poke(g.wake)
		}
	case kind == statusFrame && len(content) >= 25:
		g.learn(p, content)
	case kind == wantFrame && len(content) == 4:
		chunk, next := g.records.Chunk(g.cfg.Now(), binary.BigEndian.Uint32(content))
		g.post(w, chunkFrame, binary.BigEndian.AppendUint32(content, next), chunk)
	case kind == chunkFrame && len(content) >= 8 && p.pulling && p.place == binary.BigEndian.Uint32(content):
		if err = g.records.TakeOver(g.cfg.Now(), content[8:]); err == nil {
			if p.place = binary.BigEndian.Uint32(content[4:]); p.place == 0 {
				p.pulling = false
			} else {
				g.want(p)
			}
		}
	case kind == farewellFrame:
		g.forget(p)
		for _, o := range g.peers {
			if p.heard.Sub(o.met) < statusEvery { // it may not have met p, and have our records from before the last word of p
				g.era++
				o.era = g.era
				g.say(o, true)
			}
		}
		g.over(p.address, ended)
		if i := slices.IndexFunc(g.roster.targets, func(t *target) bool { return t.name == p.name }); i >= 0 {
			g.roster.targets[i].answered = p.heard.Add(patience) // lists have it for a while
		}
		return false
	default:
		err = errFrame
	}
	if err != nil {
		g.ring(malformedAlarm, p.address, "error", err)
		return false
	}
	poke(g.news)
	return true
}

var (
	errFrame  = errors.New("a frame that it may not send now")
	errSilent = errors.New("it says nothing")
)

// learn reads how a peer is. A frame may be read late, but never before it was written: so a clock that seems behind is
// for the other end to tell.
func (g *Group) learn(p *peer, content []byte) {
	if ahead := time.UnixMilli(int64(binary.BigEndian.Uint64(content))).Sub(g.cfg.Now()); ahead > skew {
		g.ring(clockAlarm, p.address, "ahead", ahead.Round(time.Second))
	}
	switch digest := binary.BigEndian.Uint64(content[8:]); {
	case digest == g.roster.digest || g.roster.list == nil:
		p.differs = time.Time{}
	case p.differs.IsZero():
		p.differs = p.heard
	case p.heard.Sub(p.differs) > patience:
		g.ring(listsAlarm, p.address, "ours", g.roster.list)
	}
	g.roster.hear(string(content[25:]), p.heard)
	if era := binary.BigEndian.Uint64(content[16:]); era != 0 { // else it is the first frame
		p.theirs, p.ready = era, content[24] == 1
		if era != p.pulled && (g.ready == 1 || p.pulling) {
			g.pull(p)
		}
	}
}

// forget drops a peer.
func (g *Group) forget(p *peer) {
	if p.wire != nil {
		p.wire.close()
	}
	delete(g.peers, p.name)
	g.records.Gone(g.cfg.Now(), p.name)
}

// run tells, and tends, until the group is closed.
func (g *Group) run() {
	tick, due := time.NewTicker(tendEvery), time.NewTimer(0)
	defer tick.Stop()
	defer due.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.wake:
		case <-due.C:
		case <-tick.C:
			g.tend()
		}
		due.Reset(max(g.tell(), time.Millisecond))
	}
}

// pace is the clock of batches and of late peers. It does not step, whatever becomes of the clock of windows.
func (g *Group) pace() time.Time { return g.opened.Add(time.Since(g.opened)) }

// tell tells all peers what is due, and returns how long it is until the next is.
func (g *Group) tell() time.Duration {
	g.mu.Lock()
	defer g.unlock()
	now := g.pace()
	at, ok := g.records.Next()
	if ok && !at.After(now) {
		for _, name := range g.records.Expire(now) {
			if p := g.peers[name]; p != nil {
				p.late = true
				g.ring(lateAlarm, p.address)
			}
		}
		for name, p := range g.peers {
			// A batch for a peer without a connection is under way until there is one: so the peer becomes late.
			if batch := g.records.Batch(now, name); batch != nil && p.wire != nil {
				g.post(p.wire, tellFrame, nil, batch)
			}
		}
		at, ok = g.records.Next()
	}
	if !ok {
		at = now.Add(tendEvery)
	}
	g.due = at
	return at.Sub(now)
}

// tend does what is due from time to time.
func (g *Group) tend() {
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	g.records.Present(g.cfg.Now())
	g.roster.expire(now)
	g.drop(now)
	g.greet(now, g.attend(now))
	g.lapse()
	if g.roster.list != nil && !g.leaving && now.Sub(g.listedAt) > patience {
		g.ring(unlistedAlarm, "", "list", g.roster.list)
	}
	if now.Sub(g.counted) >= silence { // it looks at all records
		g.counted = now
		if evicted := g.records.Stats().Evicted; evicted > g.evicted {
			g.evicted = evicted
			g.ring(fullAlarm, "", "evicted", evicted)
		}
	}
}

// drop forgets peers that are silent.
func (g *Group) drop(now time.Time) {
	for _, p := range g.peers {
		if now.Sub(p.heard) <= silence {
			continue
		}
		g.gone++
		g.forget(p)
		if !slices.ContainsFunc(g.roster.targets, func(t *target) bool { return t.name == p.name || t.address == p.address }) {
			g.ring(goneAlarm, p.address, "error", errSilent) // else greet tells it, unless the address is heard
		}
	}
}

// attend says to each peer how this process is. It returns those that are heard, by the address that each says.
func (g *Group) attend(now time.Time) map[string]*peer {
	heard := make(map[string]*peer, len(g.peers))
	for _, p := range g.peers {
		if now.Sub(p.status) >= statusEvery {
			g.say(p, true)
		}
		if p.wire == nil {
			continue
		}
		o := heard[p.address]
		if o != nil && min(p.heard.Sub(o.met), o.heard.Sub(p.met)) > patience || p.address == g.cfg.Self && p.heard.Sub(p.met) > patience {
			g.ring(sameAlarm, p.address)
		}
		heard[p.address] = p
	}
	return heard
}

// greet dials the addresses of the list that this process does not hear, and tells which of them are gone.
func (g *Group) greet(now time.Time, heard map[string]*peer) {
	for _, t := range g.roster.targets {
		p := g.peers[t.name]
		switch {
		case t.name == g.ours.name:
			if t.listed {
				g.listedAt = now
			}
			continue
		case p != nil && p.wire != nil:
			if t.answered = p.heard; !p.late { // what was said was about a process before it, or about its name in the list
				g.over(t.address, answers)
			}
		case !t.dialing && !g.leaving:
			t.dialing = true
			g.ended.Go(func() { g.dial(t) })
		}
		if o := heard[t.address]; o != nil { // a process that was started again and not dialed yet
			t.answered = o.heard
		}
		if p == nil && now.Sub(t.answered) > silence {
			g.ring(goneAlarm, t.address, "error", cmp.Or(t.err, errSilent))
		}
	}
}

// lapse ends what was said of addresses that are on no list, and at which no peer is.
func (g *Group) lapse() {
	known := map[string]bool{"": true}
	for _, t := range g.roster.targets {
		known[t.address] = true
	}
	for _, p := range g.peers {
		known[p.address] = true
	}
	for about := range g.rang {
		if !known[about.member] {
			g.over(about.member, unlisted)
		}
	}
}
