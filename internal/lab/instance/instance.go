// SPDX-License-Identifier: Apache-2.0

// Package instance is what the lab and the servers that it starts tell each other.
package instance

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

const (
	// ClientHeader is the field in which a client of the lab names itself, for the count alone.
	ClientHeader = "Lab-Client"

	// DecisionHeader is the field that says what was decided.
	DecisionHeader = "Lab-Decision"

	// ProcessHeader is the field that says which process has answered.
	ProcessHeader = "Lab-Process"

	// Attacker is how the name of an attacker ends.
	Attacker = "/attacker"

	// Cached is how the path begins where the proxy keeps answers for all, and GET is answered
	// so that it may.
	Cached = "/cached"

	// Wrong is the field of a log-in with a wrong password.
	Wrong = "Lab-Wrong"

	// Size is how long the answers of Early and Proxied are.
	Size = 200_000

	// Sum is the trailer of Proxied: how long the body was.
	Sum = "Lab-Sum"

	// Admitted is how an admitted request is counted; the others by the reason of the refusal.
	Admitted = "admitted"
)

// A Config is what one instance serves. All instances have the same routes.
type Config struct {
	Process int64 // its number, which none has had before it
	Listen  netip.AddrPort
	Now     int64          // Unix seconds, at which the clock stands
	Secret  []byte         // of tokens, and of calls to counters
	Trusted []netip.Prefix // the networks of the proxies
	Routes  []Route
	Fleet   *Fleet // where it is one of a fleet: then there are neither Routes nor Now, Secret and Trusted
}

// A Fleet is served as a file of policies says, by the clock of the machine.
type Fleet struct {
	Policies string         // the file
	Keys     string         // the folder with certificate.pem and key.pem
	Safe     netip.AddrPort // where it listens for TLS
}

// The policies of a fleet, each with a handler of its own behind it.
const (
	Sliding = "sliding"
	Fixed   = "fixed"
	Bucket  = "bucket"
	LogIn   = "login"   // 401 for a request with the field Wrong
	AtOnce  = "at-once" // takes a while
	Form    = "form"    // sells tallies, and keeps what was filled in
	Upload  = "upload"  // has net/http write the parts to files
	Early   = "early"   // sends a 103 first
	Proxied = "proxied" // a ReverseProxy, whose upstream sends a 103, asks for the body by 100, and has a trailer
)

// A Route is one policy with one limit.
type Route struct {
	Policy      string
	Quota       int64
	Window      int64  // seconds
	Fixed       bool   // a fixed window, not a sliding one
	Mode        string // "", or the name of a mode
	Work, Crowd int64
	BindOwn     bool
	MaxClients  int // 0: the default
	Room        bool
	AtOnce      int    // requests of a tally that are served at once; 0 for any number
	Counter     string // the URL of an exact counter; "" for none
	Instances   int64  // how many the middleware is told that there are
}

// Challenge returns what the route sells, or nil.
func (r Route) Challenge() *middleware.Challenge {
	mode := middleware.WhenExhausted
	switch r.Mode {
	case "":
		return nil
	case Newcomers:
		mode = middleware.Newcomers
	case EveryRequest:
		mode = middleware.EveryRequest
	}
	c := &middleware.Challenge{Mode: mode, Work: r.Work, Crowd: r.Crowd, BindOwn: r.BindOwn, Path: "/" + r.Policy + "/tally/"}
	c.NoWaitingRoom = !r.Room && mode != middleware.EveryRequest
	return c
}

// The modes by name.
const (
	WhenExhausted = "WhenExhausted"
	Newcomers     = "Newcomers"
	EveryRequest  = "EveryRequest"
)

// Where is where an instance listens, for clients and for the lab.
type Where struct{ Front, Back, Safe netip.AddrPort }

// A State is what an instance has seen and used.
type State struct {
	Counts map[string]map[string]int64
	CPU    time.Duration
	Heap   uint64

	Goroutines int
}

// A Decision is what a response says of the decision about its request.
type Decision struct {
	Reason    string
	Own, Room bool
	Inherited int64
}

const layout = "%s own=%t room=%t inherited=%d"

func (d Decision) String() string { return fmt.Sprintf(layout, d.Reason, d.Own, d.Room, d.Inherited) }

// Parse reads what String has written. It is not ok if that is something else.
func Parse(text string) (d Decision, ok bool) {
	n, err := fmt.Sscanf(text, layout, &d.Reason, &d.Own, &d.Room, &d.Inherited)
	return d, n == 4 && err == nil
}
