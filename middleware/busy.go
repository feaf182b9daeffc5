// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/load"
	"github.com/tallystick/tallystick/middleware/internal/slots"
)

// In WhenBusy a token of the shared tally is of no use while the instance is busy. Honouring it
// would exempt the very clients that caused the load: they were admitted, so each of their
// addresses has one. Its count stays, in the token and in memory.

// workFirst reports whether a client that has no tally of its own proves work first. For a
// request this is decided once, when it is charged. Whether it may stand in line before that,
// and what the endpoint tells a page, are guesses: in between the answer may change.
func (q *call) workFirst() bool {
	return q.challenge.mode == Newcomers || q.challenge.mode == WhenBusy && q.challenge.load.BusyFor(q.at, q.challenge.busyAt, q.loadOf(nil).Network)
}

// noteLoad counts a request that was admitted. Refused requests do not count: else a flood that
// costs its sender nothing would keep the instance busy. Requests of cost 0 do not count either: a
// client may send any number.
func (q *call) noteLoad(charge *charged) {
	if q.challenge.mode != WhenBusy || !charge.verdict.Admitted || q.dry || q.dc.decision.Cost == 0 {
		return
	}
	from := q.loadOf(charge.own)
	q.challenge.load.Admit(q.at, q.challenge.busyAt, from)
	if q.challenge.busyAt.AtOnce == 0 || q.r == nil {
		return
	}
	end := q.challenge.load.Begin(q.challenge.busyAt, from)
	if end == nil {
		return
	}
	if a := q.dc.decision.withExtras(); a.permit == nil {
		a.permit = slots.NewPermit(end)
	} else {
		a.permit.Also(end)
	}
}

// loadOf names the client and the network that a request counts for in the load. No client may make an instance busy
// alone, nor by the tallies that it has bought. One client is an IPv4 address or an IPv6 /48, as smaller prefixes are
// to be had for nothing. Its network is the IPv4 /16 or IPv6 /29: a member of a registry gets a /29 for the asking, and
// hosts that rent addresses by the hour have them in few /16s. Keys, users and the addresses of a network of one's own
// cannot be had in any number: each is its own network.
func (q *call) loadOf(own *token.Own) (from load.Source) {
	id := q.who.id
	if own != nil {
		from.Tally = q.challenge.load.Hash(own.ID[:])
	}
	if id.kind != kindAddress {
		whole := *id // one key in many things is one client
		whole.text = whole.text[:whole.named]
		var buf [1 + longestInFull]byte
		from.Client = q.challenge.load.Hash(whole.append(buf[:0]))
		from.Network = from.Client
		return from
	}
	addr := id.firstAddr()
	alone := near(addr) || nat64Local.Contains(addr)
	if !alone {
		addr = masked(addr, 48)
	}
	b := addr.As16()
	from.Client = q.challenge.load.Hash(b[:])
	from.Network = from.Client
	if !alone {
		var network [8]byte
		binary.BigEndian.PutUint64(network[:], id.provider())
		from.Network = q.challenge.load.Hash(network[:])
	}
	return from
}
