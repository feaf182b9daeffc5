// SPDX-License-Identifier: Apache-2.0

package house

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"time"
)

// The fields of requests and responses by which the lab and its servers tell each other something, and what they say.
const (
	ClientHeader   = "Lab-Client"   // in which a client of the lab names itself, for the count alone
	DecisionHeader = "Lab-Decision" // what was decided

	Attacker = "/attacker" // how the name of an attacker ends
	Admitted = "admitted"  // how an admitted request is counted; the others by the reason of the refusal
)

// Cached is the policy whose answers the proxy keeps for all: GET is answered so that it may.
const Cached = "cached"

// A Config describes what one instance serves.
type Config struct {
	Process  int64 // its number, which none has had before it
	Listen   netip.AddrPort
	Dir      string         // with what to serve
	Now      int64          // Unix seconds, where the clock stands
	Redis    string         // the counter of exact routes
	Secret   []byte         // of peers
	Pod      netip.AddrPort // where peers hear it
	Resolver string         // the DNS that knows them
	Began    time.Time      // since when their clocks go on
}

// Where is where an instance listens, for clients and for its peers.
type Where struct{ Front, Peers netip.AddrPort }

// A State counts what an instance has seen and used.
type State struct {
	Counts     map[string]map[string]int64 // by the name that a client gives itself, by what became of its requests
	Heap       uint64
	Goroutines int

	Logged []string // lines

	Waited uint64        // requests, for peers
	Took   map[int]int64 // decisions with peers, by their whole milliseconds
	Heard  []string      // peers
}

// Shared is the counter of exact routes: a Redis.
const Shared = "shared"

// Hears is how the name of a policy begins that counts with its peers.
const Hears = "peers-"

// A Decision is the part of a response about the decision.
type Decision struct {
	Reason   string
	Admitted bool   `json:",omitempty"`
	Own      bool   `json:",omitempty"` // a tally that was bought
	Room     bool   `json:",omitempty"` // the waiting room
	Degraded bool   `json:",omitempty"` // no counter has decided
	TokenErr string `json:",omitempty"` // why no token was accepted

	Inherited int64 `json:",omitempty"`
}

func (d Decision) String() string {
	text, _ := json.Marshal(d) // it never fails
	return string(text)
}

// Parse reads what String has written. It is not ok if that is something else.
func Parse(h http.Header) (d Decision, ok bool) {
	return d, json.Unmarshal([]byte(h.Get(DecisionHeader)), &d) == nil
}

// count counts requests of a client of this name.
func (s *State) count(name, what string, n int64) {
	if s.Counts == nil {
		s.Counts = map[string]map[string]int64{}
	}
	if s.Counts[name] == nil {
		s.Counts[name] = map[string]int64{}
	}
	s.Counts[name][what] += n
}

// add adds what another instance has seen.
func (s *State) add(o State) {
	s.Heap = max(s.Heap, o.Heap)
	s.Waited += o.Waited
	s.Logged = append(s.Logged, o.Logged...)
	if s.Took == nil {
		s.Took = map[int]int64{}
	}
	for ms, n := range o.Took {
		s.Took[ms] += n
	}
	for name, counts := range o.Counts {
		for what, n := range counts {
			s.count(name, what, n)
		}
	}
}
