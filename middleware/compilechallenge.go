// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/sale"
	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/assets"
	"github.com/tallystick/tallystick/middleware/internal/load"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
)

// A challenger is a compiled [Challenge]: it asks for work, and sells tallies for it.
type challenger struct {
	policy        string
	mode          Mode
	work          int64
	bindOwn       bool
	issuer        *pow.Issuer
	prices        *sale.Prices
	passTime      time.Duration // for which a pass is one
	path          string        // of the endpoints; "": none
	script, style string        // their URLs
	pageScript    string        // of a page that opens the one that was asked for
	pageStyle     string        // of the pages in place of others
	share         int64         // of the waiting room; 0: none

	codec       *token.Codec
	pass        *limiter.Policy // by which all that is shown of a bought tally is merged; nil in EveryRequest
	passLife    time.Duration   // of a tally that is bought
	longestPass time.Duration   // the life of any tally that this process has sold

	// Of WhenBusy alone.
	busyAt load.Threshold

	// Of the Middleware, whatever its configuration.
	memory  *limiter.Memory // nil if switched off
	load    *load.Meter
	mounted *atomic.Bool // the endpoints have a place
	proofs  *proofCounts
	checks  *checks
}

// below returns what follows the path of the endpoints in the path of a request. The first is what browsers ask for: a
// proxy, or http.StripPrefix, may have taken away its beginning.
func (c *challenger) below(asked string) string {
	for base := c.path; ; {
		name, ok := strings.CutPrefix(asked, base)
		if ok {
			return name
		}
		base = base[1:]
		base = base[max(0, strings.IndexByte(base, '/')):]
	}
}

// sellsTallies reports whether the policy sells tallies.
func (c *challenger) sellsTallies() bool { return c != nil && c.mode != EveryRequest }

// bindsOwn reports whether own tallies of id are good for id alone.
func (c *challenger) bindsOwn(id *Identity) bool {
	return id.kind != kindAddress || c.bindOwn
}

// newChallenger reports every problem of cfg.Challenge. The codec reports the problems of the
// secrets.
func newChallenger(cfg *Config) (*challenger, error) {
	c := *cfg.Challenge
	c.Work = cmp.Or(c.Work, pow.DefaultWork)
	c.Crowd = cmp.Or(c.Crowd, 64)
	c.SalesPerHour = cmp.Or(c.SalesPerHour, 32)
	c.PassTime = cmp.Or(c.PassTime, time.Hour)
	var errs []error
	problem := limiter.Noting(&errs, "Challenge.")
	if c.Mode > EveryRequest {
		problem("Mode", "must be WhenExhausted, WhenBusy, Newcomers or EveryRequest")
	}
	checkBusy(&c, problem)
	// The leak is the same on each instance, however many there are: a tenth of it would shut an address on one of ten for a
	// tenth of the work.
	prices, err := sale.Tariff{Work: c.Work, Crowd: c.Crowd, SalesPerHour: c.SalesPerHour}.Compile()
	for p := range storeless.ConfigErrors(limiter.ProblemsAs[storeless.ConfigError](err)) {
		problem(p.Field, "%s", p.Problem)
	}
	if c.PassTime < time.Minute || c.PassTime > 24*time.Hour || c.PassTime%time.Second != 0 {
		problem("PassTime", "must be whole seconds, from 1 min to 24 h, not %s", span.Text(c.PassTime))
	}
	if c.NonceOnly && c.Mode != EveryRequest {
		problem("NonceOnly", "belongs to EveryRequest: a tally that costs nothing is no limit")
	}
	if c.NonceOnly && cfg.Challenge.Work != 0 {
		problem("NonceOnly", "asks for no work; leave Work 0")
	}
	if c.Mode < EveryRequest && cfg.TokenTransport == MemoryOnly {
		problem("Mode", "must be EveryRequest with MemoryOnly: a client that buys a tally would never get its token")
	}
	share := roomShare(cfg, &c, problem)
	if c.Path != "" && !plainPath(c.Path) {
		problem("Path", "must be a plain absolute path that ends in a slash, such as /tally/%s/", cfg.Policy)
	}
	longest := longestSale
	if c.Mode == EveryRequest {
		longest = longestProof
	}
	issuer, err := pow.New(pow.Config{Secrets: cfg.Secrets, MaxTTL: longest})
	if err != nil && token.CheckSecrets(cfg.Secrets) == nil {
		errs = append(errs, err) // never a policy without the challenge that it asks for
	}
	if err != nil || len(errs) > 0 {
		return nil, told(errs...)
	}
	ch := &challenger{policy: cfg.Policy, mode: c.Mode, work: c.Work, bindOwn: c.BindOwn, issuer: issuer, prices: prices, passTime: c.PassTime, path: c.Path, share: share,
		busyAt: load.Threshold{PerSecond: c.BusyPerSecond, AtOnce: c.BusyAtOnce}}
	if c.NonceOnly {
		ch.work = 0
	}
	if c.Path != "" {
		ch.script, ch.style = c.Path+assets.Pinned("tally.js"), c.Path+assets.Pinned("tally.css")
		ch.pageScript, ch.pageStyle = c.Path+assets.Pinned("page.js"), c.Path+assets.Pinned("page.css")
	}
	return ch, nil
}

// checkBusy checks from when an instance is busy.
func checkBusy(c *Challenge, problem func(field, format string, args ...any)) {
	for _, limit := range [...]struct {
		field string
		value int64
	}{{"BusyPerSecond", c.BusyPerSecond}, {"BusyAtOnce", c.BusyAtOnce}} {
		switch {
		case limit.value < 0 || limit.value > mostLoad:
			problem(limit.field, "must be from 1 to %d, or 0 for not set, not %d", mostLoad, limit.value)
		case limit.value > 0 && c.Mode != WhenBusy:
			problem(limit.field, "belongs to WhenBusy")
		}
	}
	if c.Mode == WhenBusy && c.BusyPerSecond == 0 && c.BusyAtOnce == 0 {
		problem("Mode", "WhenBusy needs BusyPerSecond, BusyAtOnce or both")
	}
}

// mostLoad is more than one process serves.
const mostLoad = 1_000_000

// The longest lives of challenges. The price of a tally rises with demand, and what it
// has risen to must be payable by a browser without a JIT, or a neighbour shuts it out.
// A proof of EveryRequest has a fixed price, and is struck for as long as it is good.
const (
	longestSale  = 5 * time.Minute
	longestProof = time.Minute
)

// plainPath reports whether p can stand in a URL, in JSON and in a pattern of
// http.ServeMux as it is, and is the path that a browser makes of it: with two
// slashes in front it would be another host, and dots lead elsewhere.
func plainPath(p string) bool {
	return strings.HasPrefix(p, "/") && strings.HasSuffix(p, "/") && (p == "/" || path.Clean(p)+"/" == p) &&
		!strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("{}\"\\<>?#%", r) })
}

// defaultShare is the divisor for the waiting room's part of each quota.
const defaultShare = 5

// roomShare checks the waiting room of c, and returns its share, 0 for none.
func roomShare(cfg *Config, c *Challenge, problem func(field, format string, args ...any)) int64 {
	if c.WaitingRoom < 0 || c.WaitingRoom > storeless.MaxQuota {
		problem("WaitingRoom", "must be one in 1 to %d, or 0 for one in %d", storeless.MaxQuota, defaultShare)
	}
	possible := cfg.TokenTransport != HeaderOnly && !cfg.InsecureNoMemory
	switch {
	case c.WaitingRoom == 0:
		if c.NoWaitingRoom || !possible || c.Mode == EveryRequest {
			return 0
		}
		return defaultShare
	case c.NoWaitingRoom:
		problem("NoWaitingRoom", "cannot go with WaitingRoom; leave out one of them")
	case cfg.TokenTransport == HeaderOnly:
		problem("WaitingRoom", "cannot go with HeaderOnly: a wait ticket is a cookie")
	case cfg.InsecureNoMemory:
		problem("WaitingRoom", "cannot go with InsecureNoMemory: a wait ticket can be shown again and again, and nothing would count it")
	}
	return c.WaitingRoom
}
