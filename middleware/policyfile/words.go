// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"reflect"
	"regexp"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// A word is how a file spells a constant of package middleware.
type word struct {
	text, constant string
	value          uint8
}

// words are the types whose values have names.
var words = map[reflect.Type][]word{
	reflect.TypeFor[storeless.Algorithm](): {
		{"sliding-window", "SlidingWindow", uint8(storeless.SlidingWindow)},
		{"fixed-window", "FixedWindow", uint8(middleware.FixedWindow)},
		{"token-bucket", "TokenBucket", uint8(middleware.TokenBucket)},
		{"leaky-bucket", "LeakyBucket", uint8(storeless.LeakyBucket)},
		{"sliding-log", "SlidingLog", uint8(storeless.SlidingLog)},
		{"rolling-day", "RollingDay", uint8(storeless.RollingDay)},
	},
	reflect.TypeFor[middleware.Mode](): {
		{"when-exhausted", "WhenExhausted", uint8(middleware.WhenExhausted)},
		{"when-busy", "WhenBusy", uint8(middleware.WhenBusy)},
		{"newcomers", "Newcomers", uint8(middleware.Newcomers)},
		{"every-request", "EveryRequest", uint8(middleware.EveryRequest)},
	},
	reflect.TypeFor[middleware.TokenTransport](): {
		{"header-or-cookie", "HeaderOrCookie", uint8(middleware.HeaderOrCookie)},
		{"header-only", "HeaderOnly", uint8(middleware.HeaderOnly)},
		{"cookie-only", "CookieOnly", uint8(middleware.CookieOnly)},
		{"memory-only", "MemoryOnly", uint8(middleware.MemoryOnly)},
	},
	reflect.TypeFor[middleware.Fields](): {
		{"ratelimit", "RateLimitFields", uint8(middleware.RateLimitFields)},
		{"x-ratelimit-in-seconds", "XRateLimitInSeconds", uint8(middleware.XRateLimitInSeconds)},
	},
	reflect.TypeFor[middleware.Outage](): {
		{"fail-open", "FailOpen", uint8(middleware.FailOpen)},
		{"fail-closed", "FailClosed", uint8(middleware.FailClosed)},
	},
	reflect.TypeFor[source](): {
		{"peer", "PeerAddress", uint8(peer)},
		{"forwarded-for", "ForwardedFor", uint8(forwardedFor)},
		{"header", "AddressFromHeader", uint8(header)},
		{"insecure-no-peer", "InsecureNoPeer", uint8(insecureNoPeer)},
	},
}

// A source is where an address comes from.
type source uint8

const (
	peer source = iota
	forwardedFor
	header
	insecureNoPeer
)

// A form is the pattern of a string. The schema has the same expression.
type form struct {
	expression *regexp.Regexp
	must       string
	least      int // bytes, where the expression would take none
}

// forms by the names of validator's rules. They check what an editor can check;
// the meaning is checked later, such as the bits of a network.
var forms = map[string]form{
	"policy": {regexp.MustCompile(`^[a-z0-9-]{1,32}$`), "must be 1 to 32 of a-z, 0-9 and -", 0},
	"name":   {regexp.MustCompile(`^[a-z0-9-]{1,48}$`), "must be 1 to 48 of a-z, 0-9 and -", 0},
	"tier":   {regexp.MustCompile(`^[^\x00-\x1f]`), "must be the name of a tier", 0},
	// Not all that time.ParseDuration takes: every unit once, from the largest, so that one
	// expression says it.
	"duration": {regexp.MustCompile(`^([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$`), `must be a duration such as "1s", "15m" or "24h"`, 2},
	"calendar": {regexp.MustCompile(`^(day|week|month)$`), "must be day, week or month", 0},
	"zone":     {regexp.MustCompile(`^[A-Za-z0-9_+/-]{1,64}$`), `must be the name of a time zone such as "Europe/Berlin"`, 0},
	"env":      {regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,99}$`), "must be the name of an environment variable, of A-Z, 0-9 and _", 0},
	"filename": {regexp.MustCompile(`^[^\x00-\x1f]{1,999}$`), "must be the path of a file", 0},
	"field":    {regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$"), "must be the name of a header field", 0},
	"network":  {regexp.MustCompile(`^[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}$`), `must be a network such as "10.0.0.0/8" or "2001:db8::/32"`, 0},
	"path":     {regexp.MustCompile(`^/([!-~]*/)?$`), `must be an absolute path that ends in a slash, such as "/tally/contact/"`, 0},
}

// fits reports whether a text has the form.
func (f form) fits(text string) bool {
	return len(text) >= f.least && f.expression.MatchString(text)
}
