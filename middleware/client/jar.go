package client

import (
	"container/list"
	"slices"
	"sync"
)

// The bounds of a jar.
const (
	maxOrigins  = 256
	maxTokens   = 16 // of an origin
	maxFamilies = 3  // of a policy
	maxShown    = 4  // tokens in one request
)

// jar keeps the newest tokens of each origin. The zero value is empty.
//
// It keeps one for each policy and family, not one for each policy: requests in
// parallel are answered with the tokens of different families, as some were sent
// before a purchase and some after it. A single place would go to whichever answer
// comes last, and what was paid for would be lost. The server picks the family
// that serves the client best out of those it is shown.
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
}

// kept is a token in the jar.
type kept struct {
	windowToken
	sent  uint64 // the request whose answer brought it
	route uint64 // of that request
	// The last request sent before the family came, if a proof of ours bought it,
	// and the kind of the challenge which that answered; else zero.
	bought, kind uint64
}

// show returns what to show to an origin and the number of the request that will
// show it.
//
// The route's own tokens come first: on a site with more policies than maxShown
// that are used in turn, the newest ones are just those not needed next.
func (j *jar) show(origin string, route uint64) (tokens []string, sent uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sends++
	s := j.site(origin)
	if s == nil {
		return nil, j.sends
	}
	for _, first := range []bool{true, false} {
		for i := range s.tokens {
			if k := &s.tokens[i]; (k.route == route) == first && len(tokens) < maxShown {
				tokens = append(tokens, k.text)
			}
		}
	}
	return tokens, j.sends
}

// keep files tokens of an origin; bought says that a proof bought them.
func (j *jar) keep(origin string, bought bool, tokens []kept) {
	if len(tokens) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.site(origin)
	if s == nil {
		s = j.open(origin)
	}
	for _, k := range tokens {
		if bought {
			k.bought = j.sends
		}
		s.put(k)
	}
}

// boughtSince reports whether a token of the origin that an answer to a challenge
// of that kind bought has come since that request was sent, which so could not
// show it.
func (j *jar) boughtSince(origin string, kind, sent uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.site(origin)
	return s != nil && slices.ContainsFunc(s.tokens, func(k kept) bool { return k.kind == kind && k.bought >= sent })
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

// open adds a site, in place of the one not used for longest if the jar is full.
func (j *jar) open(origin string) *site {
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

// put adds a token. In its family it gives way to one from a request that was
// sent later, and replaces any other.
func (s *site) put(k kept) {
	i := slices.IndexFunc(s.tokens, func(o kept) bool { return o.policy == k.policy && o.family == k.family })
	if i >= 0 {
		old := &s.tokens[i]
		if old.sent > k.sent {
			return
		}
		if k.bought == 0 {
			// Still the family that was bought then.
			k.bought, k.kind = old.bought, old.kind
		}
		s.tokens = slices.Delete(s.tokens, i, i+1)
	}
	s.tokens = slices.Insert(s.tokens, 0, k)

	// By the order of sending, again: the last to come may be the oldest.
	families, oldest := 0, 0
	for i := range s.tokens {
		if s.tokens[i].policy != k.policy {
			continue
		}
		if families++; families == 1 || s.tokens[i].sent < s.tokens[oldest].sent {
			oldest = i
		}
	}
	if families > maxFamilies {
		s.tokens = slices.Delete(s.tokens, oldest, oldest+1)
	}
	if len(s.tokens) > maxTokens {
		s.tokens = slices.Delete(s.tokens, maxTokens, len(s.tokens))
	}
}
