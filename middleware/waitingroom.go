// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/internal/ticket"
)

// The waiting room is for people whose browser cannot work. A client that is refused a page gets a
// ticket with it, waits, and sends the request again. The room is one more tally that all clients
// of the identity share, with a part of each quota. A ticket founds no tally and changes no price.
// It lets in a quarter of the room's quota, at least one request, and what it lets in brings the
// next ticket. It can be shown by any number of clients, to any number of instances, and so can any
// number of tickets: what they get together is the room's quota, on each instance.
//
// Waiting is free, and many can wait at once. So of two with one ticket each the chances are even,
// but a script that holds most tickets gets most of the room. No rule helps there: what tells
// clients of one address apart is free too. (Work for each ticket was tried. Then the client that
// works most has the room, and clients that cannot work have none.)
//
// Ticket and tally travel in a cookie of their own, because a request for a page has no other place
// for them (its body is never read, and a URL is logged), and because the tally cookie has room for
// one tally, and the client may have another one there.

const (
	// firstWait is long enough to be a nuisance to scripts and short enough not to be
	// one to people. That is all it is for: the bound is the room's quota.
	firstWait = 5 * time.Second

	// leastSpread and largestSpread bound the time within which tickets open for a room
	// that was full. People press the button some seconds after they may: a spread of
	// less would leave the room to those that come on the dot.
	leastSpread   = 10 * time.Second
	largestSpread = time.Minute

	// ticketLife must outlive a person who types a password again. It bounds nothing
	// either: a new ticket is there for the asking.
	ticketLife = 10 * time.Minute
)

// admits reports whether the ticket admits now.
func (p *roomPass) admits(now time.Time) bool { return p.text != "" && !now.Before(p.ticket.Opens) }

// readRoomPass verifies the tickets and the tallies beside them. Like tokens, all
// that are ours count. A ticket that is used up is none.
func (q *call) readRoomPass(cost int64) (pass roomPass) {
	if len(q.shown.roomCookies) == 0 {
		return pass // most clients that are refused are programs
	}
	pass = q.newRoomPass()
	for _, value := range q.shown.roomCookies {
		text, tok, _ := strings.Cut(value, "~")
		t, ok := q.room.tickets.Verify(text, q.who.bytes)
		if !ok {
			continue
		}
		if tok != "" {
			if t, err := pass.holder.Verify(q.at, tok); err == nil && t.Own.IsZero() {
				pass.tally = q.who.tier.room.policy.Merge(q.at, pass.tally, t.Tally)
			}
		}
		good := q.at.Before(t.Opens.Add(ticketLife)) && q.room.uses.Left(q.at, t, cost, ticketShare(&q.who))
		if good && (pass.text == "" || t.Opens.Before(pass.ticket.Opens)) {
			pass.text, pass.ticket = text, t
		}
	}
	return pass
}

// ticketShare is how much of the room one ticket lets in: a quarter, so that at least
// four people share it, and a page and what belongs to it may be on one ticket.
func ticketShare(who *subject) int64 { return who.tier.room.most() / 4 }

// newRoomPass returns what a client of the room has without showing anything.
func (q *call) newRoomPass() roomPass {
	bytes := append([]byte{kindWaitingRoom}, q.who.bytes...)
	return roomPass{bytes: bytes, holder: q.room.codec.Holder(bytes)}
}

// chargeRoom charges the waiting room for a request that would be refused. It is not ok
// if no ticket has opened, or if the room refuses too: then the refusal is what it would
// be without a room.
func (q *call) chargeRoom(pass *roomPass, cost int64) (c charged, ok bool) {
	if !pass.admits(q.at) || !q.room.uses.Take(q.at, pass.ticket, cost, ticketShare(&q.who), pass.ticket.Opens.Add(ticketLife)) {
		return c, false
	}
	f := q.roomCandidate(pass)
	c.shown = f.Shown
	c.tally, c.verdict = q.room.memory.Take(q.at, q.who.tier.room.policy, &f, cost)
	if !c.verdict.Admitted {
		q.room.uses.GiveBack(q.at, pass.ticket, cost)
	}
	q.noteWait(&c.verdict, cost, f.Waits)
	return c, c.verdict.Admitted
}

// roomCandidate returns the tally of the room. Its networks are counted apart from the networks of
// other tallies: else a network that fills the room would fill these too.
func (q *call) roomCandidate(pass *roomPass) limiter.Candidate {
	room := q.who.tier.room
	f := limiter.Candidate{Key: q.room.memory.Key(pass.bytes), Shown: pass.tally, Hasty: q.shadow, Costs: q.each, Provider: q.who.id.provider()}
	if q.who.wide() {
		f.Networks = []limiter.Network{
			{Key: q.room.memory.Key(q.who.id.appendNet([]byte{kindWaitingRoom}, 56)), Policy: room.net56},
			{Key: q.room.memory.Key(q.who.id.appendNet([]byte{kindWaitingRoom}, 48)), Policy: room.net48},
		}
	}
	return f
}

// issueTicket returns the pass that goes with the refusal of a page, and how long until it admits;
// 0 if none would help. Where the room has space it opens after the first wait. Where the room is
// full it opens at a random time after the room does: else all waiting clients would come at once,
// and a script that comes on the dot would always be first.
func (q *call) issueTicket(pass roomPass, cost int64) (roomPass, time.Duration) {
	if pass.bytes == nil {
		pass = q.newRoomPass()
	}
	f := q.roomCandidate(&pass)
	v := q.room.memory.Peek(q.at, q.who.tier.room.policy, &f, cost)
	if v.Impossible {
		return pass, 0 // it would be a wait for nothing
	}
	first, spread := max(firstWait, v.Wait), time.Duration(0)
	if v.Wait > 0 {
		spread = min(max(v.Wait, leastSpread), largestSpread)
	}
	// A client that comes too early keeps its ticket: a new one would begin its wait anew.
	// Nor does it get a better one for asking again: it gets a new one only where every
	// new one opens sooner.
	good := pass.text != "" && q.at.Add(v.Wait).Before(pass.ticket.Opens.Add(ticketLife))
	left := max(pass.ticket.Opens.Sub(q.at), v.Wait)
	if !good || left > first+spread {
		pass.ticket = ticket.Draw(q.at.Add(first), spread)
		pass.text = q.room.tickets.Sign(pass.ticket, q.who.bytes)
		left = pass.ticket.Opens.Sub(q.at)
	}
	if left <= 0 { // it is open, and the room was full a moment ago
		left = first
	}
	return pass, wholeSeconds(left)
}

// nextPass returns the pass that goes with the answer to a request that the room has let
// in: with the same ticket or, if that is used up, with the next. So a client that
// goes on to another page is not refused once more for each.
func (q *call) nextPass(pass roomPass, c *charged, cost int64) roomPass {
	pass.tally = c.tally
	if !q.room.uses.Left(q.at, pass.ticket, cost, ticketShare(&q.who)) {
		pass.text = ""
		pass, _ = q.issueTicket(pass, cost)
	}
	return pass
}

// roomCookie returns the cookie with the ticket and the tally of the room. It stays for
// as long as one of them is worth something.
func (q *call) roomCookie(pass *roomPass, tally *limiter.Tally) string {
	b := append(make([]byte, 0, 640), q.transport.cookieName...)
	b = append(b, roomSuffix...)
	b = append(b, '=')
	b = append(b, pass.text...)
	ends := pass.ticket.Opens.Add(ticketLife).Unix()
	if q.transport.kind != MemoryOnly {
		n := len(b)
		b = append(b, '~')
		if b = pass.holder.Append(b, tally); len(b) == n+1 {
			b = b[:n] // nothing has been counted
		} else {
			ends = max(ends, q.who.tier.policy.Expires(tally))
		}
	}
	b = append(b, "; Max-Age="...)
	b = strconv.AppendInt(b, max(1, ends-q.at.Unix()), 10)
	return string(append(b, q.transport.cookieAttributes...))
}
