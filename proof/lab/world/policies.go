// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/storeless"
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
	ownPart     = 2  // of them, that is a sixteenth, one address has: what it sends beyond makes no instance busy
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

// limitOf is the first limit of a policy, with some quota.
func limitOf(policy string, quota int64) middleware.Limit {
	l := middleware.Limit{Name: "main", Quota: quota, Window: window * time.Second}
	switch policy {
	case fixed:
		l.Algorithm = storeless.FixedWindow
	case bucket:
		l.Algorithm, l.Burst = storeless.TokenBucket, burst
	}
	return l
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
	case busy:
		t.Many, t.Per = perSecond*(permitted+10)+onTheirWay, ownPart
	case paid:
		t.Window, t.Exact = always, true
	}
	return t
}

// always is longer than there are seconds: the window of the exact route is longer than a run.
const always = 1 << 50

// permitted is how many seconds clocks may differ by.
const permitted = 5

const (
	flooders  = 4
	newcomers = instances // to /busy, in a round

	// onTheirWay is how many requests may have been found in time on /busy, and not have been counted yet, when
	// an instance gets busy: no client that sends there without work sends two at once.
	onTheirWay = flooders + newcomers
)
