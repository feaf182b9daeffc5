// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// lag is by how many seconds the clocks of two instances may differ: the skew
// that package storeless allows.
const lag = 5

// longest returns the length of the longest token that policies can make: every
// limit used to the full in both of its windows, in a shared tally or in an own
// one that is bound, at any moment of its life.
func (fm *format) longest(policies []*limiter.Policy) int {
	// How far ahead of the clock a token of a shared tally expires: at most
	// three windows (one more than it looks ahead, for a clock that lags), and
	// what a bucket owes, of the limit that looks furthest.
	ahead := int64(0)
	for i := range fm.fields {
		full, over := fm.owes(policies, i)
		ahead = max(ahead, 3*fm.fields[i].seconds+(full+over)/1_000_000+1)
	}
	// An own one has all of its life before it, or nearly none: at most the life of
	// a pass which has all limits whole.
	life := int64(fm.policy.PassLife(limiter.MaxWindow)/time.Second) + lag

	shared := len(`sub":"","`) + subjectLen
	own := shared + len(`fam":"","`) + ownIDLen
	both := len(fm.prefix) + len(`exp":`) + digits(maxExpires) + len(`,"t":[`) + len(`]}`)
	for i := range fm.fields {
		f := &fm.fields[i]
		both += len("16777215,,,,")
		if f.mark {
			full, over := fm.owes(policies, i)
			both += digits(over/1_000_000+1) + len("0")
			shared += digits(ahead * 1_000_000)
			// A bucket may owe for longer than the tally lives: its age is
			// then below zero.
			own += max(digits(life*1_000_000), digits(-full-over-lag*1_000_000))
			continue
		}
		quota := int64(0)
		for _, p := range policies {
			quota = max(quota, p.Limit(i).Quota)
		}
		both += 2 * digits(quota)
		shared += digits(ahead/f.seconds + 1)
		// The window of an instance whose clock is ahead may begin after exp.
		own += max(digits(life/f.seconds+1), digits(-1))
	}
	n := len(fm.lead) + base64.RawURLEncoding.EncodedLen(both+max(shared, own))
	return fixedLen + n + 1 + signatureLen
}

// owes returns how many microseconds the i-th limit takes to empty when it is
// full, under the policy where it takes longest, and how many it may owe
// besides, see [limiter.Policy.Owes]; 0 for a window.
func (fm *format) owes(policies []*limiter.Policy, i int) (full, over int64) {
	if !fm.fields[i].mark {
		return 0, 0
	}
	for _, p := range policies {
		full = max(full, p.Owes(i).Microseconds())
	}
	return full, full + fm.fields[i].seconds*1_000_000
}

// digits returns how many bytes v takes.
func digits(v int64) int { return len(strconv.FormatInt(v, 10)) }
