// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/tallystick/tallystick/proof/lab/house"
)

// window is the window of every limit, in seconds. The clocks stand a minute after its
// beginning, and are moved by some seconds for a row.
const window = 3600

// exactWindow is the window of the exact routes. Redis goes by its own clock, so it is longer than any run: the charges of a run
// are gone only if it begins just before one of these windows ends, which is a moment in a year.
const exactWindow = "8760h"

// plenty is the quota of routes whose limit is not what is looked at.
const plenty = 1_000_000

// leak is how many sales to an identity leak away on an instance in an hour: the default.
const leak = 32

// leastWork is the price of a tally: a few microseconds. Attackers are measured in multiples of it.
const leastWork = 16

// A route is the target of a row.
type route struct {
	Quota       int64
	Work, Crowd int64 // 0: nothing is sold
	Mode        string
	MaxClients  int
	Room        bool // to wait in
	Instances   int64
	Parts       int64 // of instances that hear each other, P; 0: none hears another
}

// Modes that are not the first, by the names of the policy file.
const (
	newcomers    = "newcomers"
	everyRequest = "every-request"
)

// policy is the route, as the policy file has it, in the n-th configuration. Each differs from the one before it, in what
// may change while requests are served.
func (r route) policy(name string, counter string, n int) map[string]any {
	limit := map[string]any{"name": "main", "quota": r.Quota, "window": fmt.Sprintf("%ds", window)}
	limits := []any{limit}
	if n%4 >= 2 { // a limit comes, has another name, goes
		limits = append(limits, map[string]any{"name": []string{"more", "other"}[n%2], "quota": plenty, "window": limit["window"]})
	}
	p := map[string]any{"maxClients": r.MaxClients, "instances": r.Instances}
	if n%2 == 1 {
		p["fields"] = []string{"ratelimit", "x-ratelimit-in-seconds"}
	}
	if r.Work > 0 {
		c := map[string]any{"work": r.Work, "crowd": r.Crowd, "path": "/" + name + "/tally/", "noWaitingRoom": !r.Room && r.Mode != everyRequest}
		if r.Mode != "" {
			c["mode"] = r.Mode
		}
		p["challenge"] = c
	}
	if counter == house.Shared {
		limit["window"], limits = exactWindow, limits[:1]
		// A busy machine is no outage: what is answered at all is answered in time.
		p["exact"] = map[string]any{"counter": counter, "outage": "fail-open", "deadline": fmt.Sprintf("%ds", 10-n%2)}
	}
	p["limits"] = limits
	return p
}
