package middleware

import (
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// The waiting room is for people whose browser cannot work. A client that is refused a
// page gets a ticket with it, waits, and sends the request again. The room is one more
// tally that everybody of the identity shares, with a part of each quota. A ticket
// founds no tally and changes no price. It can be shown again, by any number of clients
// at once, to any number of instances, and so can any number of tickets: what they get
// together is the room's quota, on each instance.
//
// Ticket and tally travel in a cookie of their own, because a request for a page
// has no other place for them (its body is never read, and a URL is logged), and
// because the tally cookie has room for one tally, of which the client may have
// another.

const (
	// firstWait is long enough to be a nuisance to scripts and short enough not to be
	// one to people. That is all it is for: the bound is the room's quota.
	firstWait = 5 * time.Second

	// ticketLife must outlive a person who types a password again. It bounds nothing
	// either: a new ticket is there for the asking.
	ticketLife = 10 * time.Minute
)

// admits reports whether the ticket admits now.
func (p *roomPass) admits(now time.Time) bool { return p.ticket != "" && !now.Before(p.opens) }

// readRoomPass verifies the tickets and the tallies beside them. Like tokens, all
// that are ours count.
func (e *engine) readRoomPass(now time.Time, who *subject, shown *credentials) (pass roomPass) {
	if len(shown.roomCookies) == 0 {
		return pass // most clients that are refused are programs
	}
	pass = e.newRoomPass(who)
	for _, value := range shown.roomCookies {
		ticket, tok, _ := strings.Cut(value, "~")
		opens, ok := e.room.tickets.Verify(ticket, who.bytes)
		if !ok {
			continue
		}
		if tok != "" {
			if t, err := pass.holder.Verify(now, tok); err == nil && t.Own.IsZero() {
				pass.tally = who.tier.room.policy.Merge(now, pass.tally, t.Tally)
			}
		}
		if now.Before(opens.Add(ticketLife)) && (pass.ticket == "" || opens.Before(pass.opens)) {
			pass.ticket, pass.opens = ticket, opens
		}
	}
	return pass
}

// newRoomPass returns what a client of the room has without showing anything.
func (e *engine) newRoomPass(who *subject) roomPass {
	bytes := append([]byte{kindRoom}, who.bytes...)
	return roomPass{bytes: bytes, holder: e.codec.Holder(bytes)}
}

// chargeRoom charges the waiting room for a request that would be refused. It is not ok
// if no ticket has opened, or if the room refuses too: then the refusal is what it would
// be without a room.
func (e *engine) chargeRoom(now time.Time, who *subject, pass *roomPass, cost int64) (c charged, ok bool) {
	if !pass.admits(now) {
		return c, false
	}
	f := e.roomCandidate(who, pass)
	c.shown = f.Shown
	c.tally, c.verdict = e.memory.Take(now, who.tier.room.policy, &f, cost)
	return c, c.verdict.Admitted
}

// roomCandidate returns the tally of the room. Its networks are counted apart from those
// of the rest: else a crowd that fills one room would fill the other.
func (e *engine) roomCandidate(who *subject, pass *roomPass) storeless.Candidate {
	f := storeless.Candidate{Key: e.memory.Key(pass.bytes), Shown: pass.tally, Provider: who.id.provider()}
	if who.networks[0].Policy != nil {
		room := who.tier.room
		f.Networks = []storeless.Network{
			{Key: e.memory.Key(who.id.appendNet([]byte{kindRoom}, 56)), Policy: room.net56},
			{Key: e.memory.Key(who.id.appendNet([]byte{kindRoom}, 48)), Policy: room.net48},
		}
	}
	return f
}

// issueTicket returns the pass that goes with the refusal of a page, and how long until
// it admits; 0 if none would help. It opens when the room has space, so that it is worth
// its wait, and no earlier than any client has to wait.
func (e *engine) issueTicket(now time.Time, who *subject, pass roomPass, cost int64) (roomPass, time.Duration) {
	if pass.bytes == nil {
		pass = e.newRoomPass(who)
	}
	f := e.roomCandidate(who, &pass)
	v := e.memory.Peek(now, who.tier.room.policy, &f, cost)
	if v.Impossible {
		return pass, 0 // it would be a wait for nothing
	}
	wait := firstWait
	if v.Wait > wait {
		wait = jittered(v.Wait)
	}
	// A client that comes too early keeps its ticket: a new one would begin its wait anew.
	good := pass.ticket != "" && now.Add(v.Wait).Before(pass.opens.Add(ticketLife))
	switch left := max(pass.opens.Sub(now), v.Wait); {
	case !good || left > wait:
		pass.opens = now.Add(wait)
		pass.ticket = e.room.tickets.Issue(pass.opens, who.bytes)
	case left > 0:
		wait = left
	}
	return pass, wholeSeconds(wait)
}

// roomCookie returns the cookie with the ticket and the tally of the room. It stays for
// as long as one of them is worth something.
func (e *engine) roomCookie(now time.Time, who *subject, pass *roomPass, tally *storeless.Tally) string {
	b := append(make([]byte, 0, 640), e.cookieName...)
	b = append(b, roomSuffix...)
	b = append(b, '=')
	b = append(b, pass.ticket...)
	ends := pass.opens.Add(ticketLife).Unix()
	if e.quiet != QuietNoToken {
		n := len(b)
		b = append(b, '~')
		if b = pass.holder.Append(b, tally); len(b) == n+1 {
			b = b[:n] // nothing has been counted
		} else {
			ends = max(ends, who.tier.policy.Expires(*tally))
		}
	}
	b = append(b, "; Max-Age="...)
	b = strconv.AppendInt(b, max(1, ends-now.Unix()), 10)
	return string(append(b, e.cookieAttributes...))
}
