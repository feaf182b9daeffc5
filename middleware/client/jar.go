// SPDX-License-Identifier: Apache-2.0

package client

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// The bounds of a jar.
const (
	maxOrigins = 256
	maxTokens  = 16 // of an origin
	maxTallies = 3  // of a policy
	maxShown   = 4  // tokens in one request
	maxPaid    = 16 // proofs of an origin
)

// jar keeps the newest tokens of each origin. The zero value is empty.
//
// It keeps one for each policy and tally, not one for each policy: parallel
// requests, sent before and after a purchase, get tokens of different tallies.
// With a single place, a late answer would replace what was paid for. The server
// picks the best of the tallies that it is shown.
type jar struct {
	mu     sync.Mutex
	sends  uint64 // numbers the requests, in the order in which they are sent
	sites  map[string]*list.Element
	recent list.List // of *site, the last used in front
}

// site is what is kept of one origin.
type site struct {
	origin string
	tokens []kept // the last to come in front
	paid   []paid // the last to come at the end
}

// paid is a proof, and what it answers. In the jar are proofs whose answer was lost, or says nothing of them.
type paid struct {
	proof   string
	route   uint64 // of the request that it goes along with
	kind    uint64 // of its challenge
	expires time.Time
}

// kept is a token in the jar.
type kept struct {
	windowToken
	sent  uint64 // the request whose answer brought it
	route uint64 // of that request
	spent bool   // that answer left nothing of the tally

	// The last request sent before the tally came, if a proof of ours bought it,
	// and the kind of the challenge which that answered; else zero.
	bought, kind uint64
	// How many more requests may be called to show it, or unknown. It only falls:
	// in the order in which answers come, the last is not the one that left least.
	room int
}

// stock is what is left of what was bought since a request was sent.
type stock int

const (
	nothing stock = iota // nothing was bought
	full                 // there is no room in it
	unsure               // the server does not say
	room                 // there was room, and it is taken for the request
)

// show returns what to show to an origin and the number of the request that will
// show it.
//
// The route's own tokens come first: on a site whose client uses more than maxShown
// policies in turn, the newest tokens are the ones not needed next. Within a route,
// unspent tallies come first: late answers that name spent ones must not push out
// what was just bought.
func (j *jar) show(origin string, route uint64) (tokens []string, sent uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sends++
	s := j.site(origin)
	if s == nil {
		return nil, j.sends
	}
	for _, turn := range [...]struct{ route, spent bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		for i := range s.tokens {
			if k := &s.tokens[i]; (k.route == route) == turn.route && k.spent == turn.spent && len(tokens) < maxShown {
				tokens = append(tokens, k.text)
			}
		}
	}
	return tokens, j.sends
}

// keep files tokens of an origin. It reports whether a tally is new that a proof
// bought, for an answer to a challenge, whose kind the tokens name.
func (j *jar) keep(origin string, tokens []kept) (sold bool) {
	if len(tokens) == 0 {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.open(origin)
	for _, k := range tokens {
		if k.own && k.kind != 0 && s.find(&k) < 0 {
			k.bought, sold = j.sends, true
		} else {
			k.kind = 0
		}
		s.put(k)
	}
	return sold
}

// putBack keeps a proof for the next request of its route.
func (j *jar) putBack(origin string, p paid) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.open(origin)
	s.paid = append(s.paid[max(0, len(s.paid)+1-maxPaid):], p)
}

// take takes a proof of a route that is still good, if there is one.
func (j *jar) take(origin string, route uint64, now time.Time) (p paid) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.site(origin); s != nil {
		s.paid = slices.DeleteFunc(s.paid, func(o paid) bool { return !now.Before(o.expires) })
		if i := slices.IndexFunc(s.paid, func(o paid) bool { return o.route == route }); i >= 0 {
			p = s.paid[i]
			s.paid = slices.Delete(s.paid, i, i+1)
		}
	}
	return p
}

// boughtSince reports whether an answer to a challenge of that kind has bought a
// token of the origin since that request was sent.
func (j *jar) boughtSince(origin string, kind, sent uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.site(origin)
	return s != nil && slices.ContainsFunc(s.tokens, func(k kept) bool { return k.kind == kind && k.bought >= sent })
}

// claim takes room for a refused request, in what was bought since it was sent.
// Earlier purchases have no room: the request has shown them.
func (j *jar) claim(origin string, kind, sent uint64) stock {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.site(origin)
	if s == nil {
		return nothing
	}
	left := nothing
	for i := range s.tokens {
		switch k := &s.tokens[i]; {
		case k.kind != kind:
		case k.bought < sent:
			k.room = 0
		case k.room > 0:
			k.room--
			return room
		case k.room == unknown:
			left = unsure
		default:
			left = max(left, full)
		}
	}
	return left
}

// site returns the site of an origin, or nil, and notes that it is in use.
func (j *jar) site(origin string) *site {
	e := j.sites[origin]
	if e == nil {
		return nil
	}
	j.recent.MoveToFront(e)
	return e.Value.(*site)
}

// open is site, and adds one that is new, in place of the one not used for longest if the jar is full.
func (j *jar) open(origin string) *site {
	if s := j.site(origin); s != nil {
		return s
	}
	if j.sites == nil {
		j.sites = make(map[string]*list.Element)
	}
	if len(j.sites) == maxOrigins {
		delete(j.sites, j.recent.Remove(j.recent.Back()).(*site).origin)
	}
	s := &site{origin: origin}
	j.sites[origin] = j.recent.PushFront(s)
	return s
}

// find returns the index of the token of k's tally, or -1.
func (s *site) find(k *kept) int {
	return slices.IndexFunc(s.tokens, func(o kept) bool { return o.policy == k.policy && o.tally == k.tally })
}

// put adds a token. In its tally it gives way to one from a request that was
// sent later, and replaces any other.
func (s *site) put(k kept) {
	if i := s.find(&k); i >= 0 {
		old := &s.tokens[i]
		if old.room == unknown || 0 <= k.room && k.room < old.room {
			old.room = k.room
		}
		if old.sent > k.sent {
			return
		}
		// Still the tally that was bought then.
		k.bought, k.kind, k.room = old.bought, old.kind, old.room
		s.tokens = slices.Delete(s.tokens, i, i+1)
	}
	s.tokens = slices.Insert(s.tokens, 0, k)

	tallies, worst := 0, 0
	for i := range s.tokens {
		if s.tokens[i].policy != k.policy {
			continue
		}
		if tallies++; tallies == 1 || s.tokens[i].worse(&s.tokens[worst]) {
			worst = i
		}
	}
	if tallies > maxTallies {
		s.tokens = slices.Delete(s.tokens, worst, worst+1)
	}
	if len(s.tokens) > maxTokens {
		s.tokens = slices.Delete(s.tokens, maxTokens, len(s.tokens))
	}
}

// worse reports whether k is evicted before o: a spent one first, then the one sent
// first. Order of arrival does not tell: the last to come may be the oldest.
func (k *kept) worse(o *kept) bool {
	if k.spent != o.spent {
		return k.spent
	}
	return k.sent < o.sent
}
