// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/reply"
	"github.com/tallystick/tallystick/storeless"
)

// answerMore fills in the fields of those who choose others than the default: they cost
// allocations of their own.
func (e *engine) answerMore(now time.Time, f *reply.Values, who *subject, v *storeless.Verdict) {
	of, p := e.fields, who.tier.policy
	tight := tightest(v, p.Len())
	limit, remaining, reset := atOnce(p.Limit(tight)), v.Limits[tight].Remaining, v.Limits[tight].Reset
	at := func(reset time.Duration, unix bool) string {
		seconds := int64(reset / time.Second)
		if unix {
			seconds += now.Unix()
		}
		return strconv.FormatInt(seconds, 10)
	}
	switch {
	case of.has(RateLimitDraft7):
		f.Other(reply.Combined, fmt.Sprintf("limit=%d, remaining=%d, reset=%s", limit, remaining, at(reset, false)))
	case of.has(RateLimitDraft6):
		f.Other(reply.Limit, strconv.FormatInt(limit, 10))
		f.Other(reply.Remaining, strconv.FormatInt(remaining, 10))
		f.Other(reply.Reset, at(reset, false))
	}
	if of.has(unitsOfX) {
		f.Other(reply.XLimit, strconv.FormatInt(limit, 10))
		f.Other(reply.XRemaining, strconv.FormatInt(remaining, 10))
		f.Other(reply.XReset, at(reset, of.has(XRateLimitInUnixTime)))
	}
	if of.has(unitsOfXQuota) {
		i := longest(p, v)
		quota := atOnce(p.Limit(i))
		f.Other(reply.XQuotaLimit, strconv.FormatInt(quota, 10))
		f.Other(reply.XQuotaUsed, strconv.FormatInt(quota-v.Limits[i].Remaining, 10))
		f.Other(reply.XQuotaReset, at(v.Limits[i].Reset, of.has(XQuotaInUnixTime)))
	}
}

// tightest returns the limit in force that leaves least, and of those the one that does
// so for longest.
func tightest(v *storeless.Verdict, n int) int {
	best := 0
	for i := 1; i < n; i++ {
		a, b := &v.Limits[i], &v.Limits[best]
		if a.Shadow {
			continue
		}
		if b.Shadow || a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.Reset > b.Reset {
			best = i
		}
	}
	return best
}

// longest returns the limit in force with the longest window, and of those the one that
// leaves least.
func longest(p *storeless.Policy, v *storeless.Verdict) int {
	best := 0
	for i := 1; i < p.Len(); i++ {
		if v.Limits[i].Shadow {
			continue
		}
		a, b := p.Limit(i).Window, p.Limit(best).Window
		if v.Limits[best].Shadow || a > b || a == b && v.Limits[i].Remaining < v.Limits[best].Remaining {
			best = i
		}
	}
	return best
}
