// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// The policies that every instance has. Each is a path, and what is sold for it is below that.
const (
	windowed = "window"      // a sliding window, and nothing else
	fixed    = "fixed"       // a fixed one
	bucket   = "bucket"      // a token bucket
	login    = house.LogIn   // wrong passwords have a limit of their own
	form     = "form"        // tallies are sold, and there is a waiting room
	busy     = "busy"        // the same, where work comes first only while the instance is busy
	slow     = house.Slow    // bodies, and a limit of concurrent requests
	crew     = house.Busy    // concurrent requests, for a while each
	upload   = house.Upload  // files
	early    = house.Early   // a 103 comes first
	proxied  = house.Proxied // another server answers
	paid     = "paid"        // an exact counter
)

const (
	instances   = 3
	failedQuota = 12
	burst       = 8
	atOnce      = 4
	work        = 64 // of a tally: it is a multiple of the price that counts
	perSecond   = 4  // from which an instance is busy on /busy. Ten seconds' worth are more than all but a flood send in a round
)

// quotas has two quotas a policy: the first for the first and the third of three configurations, the second for the second.
var quotas = map[string][2]int64{
	windowed: {40, 60}, fixed: {40, 50}, bucket: {40, 50}, login: {40, 50}, form: {27, 30}, busy: {20, 24},
	slow: {10_000, 10_000}, crew: {10_000, 10_000}, upload: {10_000, 10_000}, early: {10_000, 10_000}, proxied: {10_000, 10_000},
	paid: {60, 60},
}

// quotaOf is the quota of a policy in the n-th configuration.
func quotaOf(policy string, n int) int64 {
	if n%3 == 1 {
		return quotas[policy][1]
	}
	return quotas[policy][0]
}

type object = map[string]any

// termsOf are what the oracle knows of a policy.
func termsOf(policy string, quota *court.Quotas) *court.Terms {
	t := &court.Terms{Window: window, Quota: quota, Fixed: policy == fixed, Sold: policy == form || policy == busy}
	switch policy {
	case bucket:
		t.Burst = burst
	case login:
		t.Wrong = &court.Terms{Window: window, Quota: court.NewQuotas(failedQuota)}
	case paid:
		t.Window, t.Exact = always, true
	}
	return t
}

// always is longer than there are seconds: the window of the exact route is longer than a run.
const always = 1 << 50

// permitted is how many seconds clocks may differ by.
const permitted = 5

// flooders are clients that send forged requests.
const flooders = 4

// configure returns the n-th configuration of a policy. Each differs from the one
// before it, in what may change while requests are served.
func configure(policy string, n int, exact string) object {
	const minute = "60s"
	limit := object{"name": "main", "quota": quotaOf(policy, n), "window": minute}
	limits := []any{limit}
	p := object{"maxClients": 8192}
	if n%2 == 1 {
		p["fields"] = []string{"ratelimit", "x-ratelimit-in-seconds"}
	}
	challenge := object{"work": work, "path": "/" + policy + "/tally/"}
	switch policy {
	case windowed:
		if n%4 >= 2 { // a limit comes, has another name, goes
			limits = append(limits, object{"name": []string{"more", "other"}[n%2], "quota": 1_000_000, "window": minute})
		}
		p["advanced"] = object{"net56Factor": 8 + n%2}
	case fixed:
		limit["algorithm"] = "fixed-window"
	case bucket:
		limit["algorithm"], limit["burst"] = "token-bucket", burst
	case login:
		limits = append(limits, object{"name": "failed", "quota": failedQuota, "window": minute})
		p["byOutcome"] = object{"limits": []string{"failed"}, "free": []int{200}}
	case form:
		p["challenge"], p["instances"] = challenge, instances
		if n%2 == 1 {
			challenge["mode"] = "newcomers"
		}
	case busy:
		p["challenge"], p["instances"] = challenge, instances
		challenge["mode"], challenge["busyPerSecond"] = "when-busy", perSecond
		if n%2 == 1 {
			challenge["mode"], challenge["busyPerSecond"] = "newcomers", 0
		}
	case slow, crew:
		p["concurrency"] = object{"max": atOnce, "maxHold": "1h", "cancelHeld": n%2 == 1}
	case paid:
		limit["algorithm"], limit["window"] = "fixed-window", exact
		// A busy machine is no outage: what is answered at all is answered in time.
		p["exact"] = object{"counter": house.Shared, "outage": "fail-closed", "deadline": fmt.Sprintf("%ds", 10-n%2)}
	}
	p["limits"] = limits
	return p
}
