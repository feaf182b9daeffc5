package middleware

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A Challenge says when a client is offered work, and at which price. It is
// plain data, like [Config].
type Challenge struct {
	_ [0]func()

	// Mode says when. Default: [WhenExhausted].
	Mode Mode

	// Work is the price in expected hashes, of the first Crowd families of an
	// identity or, in [EveryRequest], of each request. Default: 262144, a third
	// of a second on a slow phone. Permitted: 16 to 2²⁹.
	Work int64

	// NonceOnly asks for no work at all, only for a round trip within ten
	// seconds. Permitted in [EveryRequest] alone: a family that costs nothing
	// is no limit.
	NonceOnly bool

	// Crowd is how many honest clients one address is expected to hide. With
	// every further Crowd of families the price doubles, and at most four
	// Crowds are sold to an address within PriceMemory. Default: 8. Permitted:
	// 1 to 255.
	Crowd int64

	// PriceMemory is how long a sale is remembered, at least. Default: one
	// hour. Permitted: whole seconds, from one minute to one day.
	PriceMemory time.Duration

	// BindOwn makes a family good for the address alone that bought it. Without,
	// a phone keeps its family as it changes networks. Families of API keys and
	// principals are always bound.
	BindOwn bool

	// SurgeBudget is how many families this instance may sell in a minute before
	// the work of every challenge begins to rise. Prohibited in [EveryRequest],
	// which sells none, and with InsecureNoMemory. Default: 0, never.
	SurgeBudget int64

	// WaitShare is the part of each quota, one in so many and at least 1, that
	// an identity may use without work, after a wait: the wait lane, for people
	// without JavaScript; see the package documentation. That comes on top of
	// the quotas. Default: 5, but no lane in [EveryRequest], nor with CarryHeader
	// or InsecureNoMemory, which prohibit one. Permitted: 1 to 2147483647.
	WaitShare int64

	// NoWait closes the wait lane, where nothing may be had without work.
	// Prohibited with WaitShare.
	NoWait bool

	// Path is where the program has mounted [Middleware.Endpoints], such as
	// "/tally/contact/"; refusals name the URLs below it. Default: none.
	// Permitted: an absolute path that ends in a slash.
	Path string
}

// Mode says when a client is challenged.
type Mode uint8

const (
	// WhenExhausted lets the clients of an address share its quota, and offers
	// each a family of its own when that is used up.
	WhenExhausted Mode = iota

	// Newcomers has no shared family: a client without one of its own proves
	// work first. For forms and sign-up.
	Newcomers

	// EveryRequest wants a proof with each request, charged to the shared
	// family. A proof buys one request, on each instance at most.
	EveryRequest
)

// challenger is a compiled Challenge.
type challenger struct {
	mode    Mode
	work    int64
	bindOwn bool
	issuer  *pow.Issuer
	prices  *storeless.Prices
	surge   *storeless.Surge // nil: off
	path    string
	assets  *assets // nil without path
	share   int64   // of the wait lane; 0: none
}

// mostWork is what a surge may raise a challenge to.
const mostWork = 1 << 32

// newChallenger reports every problem of cfg.Challenge. Those of the secrets
// are left to the codec.
func newChallenger(cfg *Config) (*challenger, error) {
	c := *cfg.Challenge
	if c.Work == 0 {
		c.Work = pow.DefaultWork
	}
	if c.Crowd == 0 {
		c.Crowd = 8
	}
	if c.PriceMemory == 0 {
		c.PriceMemory = time.Hour
	}
	var errs []error
	problem := func(field, format string, args ...any) {
		errs = append(errs, &ConfigError{Field: "Challenge." + field, Problem: fmt.Sprintf(format, args...)})
	}
	if c.Mode > EveryRequest {
		problem("Mode", "must be WhenExhausted, Newcomers or EveryRequest")
	}
	prices, err := storeless.Tariff{Work: c.Work, Crowd: c.Crowd, Memory: c.PriceMemory}.Compile()
	for p := range ConfigErrors(err) {
		field := p.Field
		if field == "Memory" {
			field = "PriceMemory"
		}
		problem(field, "%s", p.Problem)
	}
	if c.NonceOnly && c.Mode != EveryRequest {
		problem("NonceOnly", "belongs to EveryRequest: a family that costs nothing is no limit")
	}
	if c.NonceOnly && cfg.Challenge.Work != 0 {
		problem("NonceOnly", "asks for no work; leave Work 0")
	}
	switch {
	case c.SurgeBudget < 0:
		problem("SurgeBudget", "must be families a minute, or 0 for never, not %d", c.SurgeBudget)
	case c.SurgeBudget > 0 && c.Mode == EveryRequest:
		problem("SurgeBudget", "belongs to WhenExhausted and Newcomers: EveryRequest sells no families")
	case c.SurgeBudget > 0 && cfg.InsecureNoMemory:
		problem("SurgeBudget", "cannot go with InsecureNoMemory: one proof, shown again and again, would count as so many sales")
	}
	if c.Mode < EveryRequest && cfg.Quiet == QuietNoToken {
		problem("Mode", "must be EveryRequest with QuietNoToken: a client that buys a family would never get its token")
	}
	waitShare := waitShare(cfg, &c, problem)
	if c.Path != "" && !plainPath(c.Path) {
		problem("Path", "must be a plain absolute path that ends in a slash, such as /tally/%s/", cfg.Policy)
	}
	issuer, err := pow.New(pow.Config{Secrets: cfg.Secrets})
	if err != nil && token.CheckSecrets(cfg.Secrets) == nil {
		errs = append(errs, err) // never a policy without the challenge that it asks for
	}
	if err != nil || len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	ch := &challenger{mode: c.Mode, work: c.Work, bindOwn: c.BindOwn, issuer: issuer, prices: prices, path: c.Path, share: waitShare}
	if c.NonceOnly {
		ch.work = 0
	}
	if c.Path != "" {
		ch.assets = newAssets()
	}
	if c.SurgeBudget > 0 {
		ch.surge = storeless.NewSurge(c.SurgeBudget)
	}
	return ch, nil
}

// plainPath reports whether p can stand in a URL, in JSON and in a pattern of
// http.ServeMux as it is, and is the path that a browser makes of it: with two
// slashes in front it would be another host, and dots lead elsewhere.
func plainPath(p string) bool {
	return strings.HasPrefix(p, "/") && strings.HasSuffix(p, "/") && (p == "/" || path.Clean(p)+"/" == p) &&
		!strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("{}\"\\<>?#%", r) })
}

// binding is what a challenge of this policy is bound to. The kind keeps a
// proof that buys a request from opening a family.
func (e *engine) binding(who []byte) pow.Binding {
	kind := "family"
	if e.challenge.mode == EveryRequest {
		kind = "request"
	}
	// A copy, or every inquiry's bytes would have to live on the heap.
	return pow.Binding{Client: slices.Clone(who), Route: e.base.policy.Name(), Tier: kind}
}
