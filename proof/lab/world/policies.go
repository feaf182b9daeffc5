// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/judge"
	"github.com/tallystick/tallystick/storeless"
)

// The policies that every instance has. Each is a path, and what is sold for it is below that.
const (
	windowed = "window"         // a sliding window, and nothing else
	fixed    = "fixed"          // a fixed one
	bucket   = "bucket"         // a token bucket
	login    = instance.LogIn   // wrong passwords have a limit of their own
	form     = "form"           // tallies are sold, and there is a waiting room
	busy     = "busy"           // the same, where work comes first only while the instance is busy
	slow     = instance.Slow    // bodies, and so many at once
	crew     = instance.Busy    // so many at once, for a while each
	upload   = instance.Upload  // files
	early    = instance.Early   // a 103 comes first
	proxied  = instance.Proxied // another server answers
	paid     = "paid"           // an exact counter, fail-closed
	open     = "open"           // an exact counter, fail-open
)

const (
	instances   = 3
	exactQuota  = 60
	failedQuota = 12
	burst       = 8
	atOnce      = 4
	work        = 64 // of a tally: it is a multiple of the price that counts
	perSecond   = 4  // from which an instance is busy on /busy. Ten seconds' worth are more than all but a flood send in a round
	ownPart     = 2  // of them, that is a sixteenth, one address has: what it sends beyond makes nobody busy
)

// quotas are those of the first and the third of three configurations, and of the second.
var quotas = map[string][2]int64{
	windowed: {40, 60}, fixed: {40, 50}, bucket: {40, 50}, login: {40, 50}, form: {27, 30}, busy: {20, 24},
	slow: {10_000, 10_000}, crew: {10_000, 10_000}, upload: {10_000, 10_000}, early: {10_000, 10_000}, proxied: {10_000, 10_000},
	paid: {exactQuota, exactQuota}, open: {exactQuota, exactQuota},
}

// quotaOf is the quota of a policy in the n-th configuration.
func quotaOf(policy string, n int) int64 {
	if n%3 == 1 {
		return quotas[policy][1]
	}
	return quotas[policy][0]
}

// exact reports whether a counter decides on a policy.
func exact(policy string) bool { return policy == paid || policy == open }

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

// quotasOf are those that change with a configuration.
func quotasOf() map[string]*judge.Quotas {
	all := map[string]*judge.Quotas{}
	for policy := range quotas {
		if !exact(policy) {
			all[policy] = judge.NewQuotas(quotaOf(policy, 0))
		}
	}
	return all
}
