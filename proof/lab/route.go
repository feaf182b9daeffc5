// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
)

type scale struct {
	instances int
	quota     int64
	work      int64 // of a farm on each instance, in prices of the first tally
	crowd     int64

	rounds   int             // of deploys and of kills
	troubles []time.Duration // that peers have
	late     time.Duration   // their list, and what DNS says of them
	pause    time.Duration   // of clients that come again and again
}

var (
	short = scale{instances: 3, quota: 20, work: 12, crowd: 3, rounds: 2, troubles: []time.Duration{250 * time.Millisecond}, late: 250 * time.Millisecond, pause: 20 * time.Millisecond}
	whole = scale{instances: 5, quota: 60, work: 60, crowd: 8, rounds: 2, troubles: []time.Duration{3 * time.Second}, late: 3 * time.Second, pause: 50 * time.Millisecond}
	long  = scale{instances: 3, quota: 100, work: 60, crowd: 8, rounds: 100, troubles: []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}, late: 30 * time.Second, pause: 250 * time.Millisecond}
)

// window is the window of every limit, in seconds. The clocks stand a minute after its
// beginning, and are moved by some seconds for a row.
const window = 3600

// leak is how many sales to an identity leak away on an instance in an hour: the default.
const leak = 32

// leastWork is the price of a tally: a few microseconds. Attackers are measured in multiples of it.
const leastWork = 16

// A route is what a row attacks.
type route struct {
	Quota       int64
	Fixed       bool  // a fixed window, not a sliding one
	Work, Crowd int64 // 0: nothing is sold
	Mode        string
	BindOwn     bool
	MaxClients  int
	Room        bool // to wait in
	AtOnce      int  // requests of a tally that are served at once; 0 for any number
	Instances   int64
	Parts       int64 // of instances that hear each other, P; 0: none hears another
}

// Modes that are not the first, by the names of the policy file.
const (
	newcomers    = "newcomers"
	everyRequest = "every-request"
)

// theRedis counts on exact routes.
const theRedis = "shared"

// policy is the route, as the policy file has it.
func (r route) policy(name string, counter string) map[string]any {
	limit := map[string]any{"quota": r.Quota, "window": fmt.Sprintf("%ds", window)}
	if r.Fixed {
		limit["algorithm"] = "fixed-window"
	}
	p := map[string]any{"limits": []any{limit}, "maxClients": r.MaxClients, "instances": r.Instances}
	if r.Work > 0 {
		c := map[string]any{"work": r.Work, "crowd": r.Crowd, "bindOwn": r.BindOwn, "path": "/" + name + "/tally/", "noWaitingRoom": !r.Room && r.Mode != everyRequest}
		if r.Mode != "" {
			c["mode"] = r.Mode
		}
		p["challenge"] = c
	}
	if counter == theRedis {
		limit["window"] = court.ExactWindow(time.Now()).String()
	}
	if counter != "" { // a busy machine is no outage: what is answered at all is answered in time
		p["exact"] = map[string]any{"counter": counter, "outage": "fail-open", "deadline": "10s"}
	}
	if r.AtOnce > 0 {
		p["concurrency"] = map[string]any{"max": r.AtOnce, "maxHold": "1h"}
	}
	return p
}

// terms are what the oracle knows of the route.
func (r route) terms() *court.Terms {
	return &court.Terms{Window: window, Fixed: r.Fixed, Quota: court.NewQuotas(r.Quota), Sold: r.Mode == newcomers, Each: r.Mode == everyRequest, Hears: r.Parts > 0}
}
