package middleware

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// form mirrors the part of Config that stands on its own. The tags are kept off
// Config itself, whose users may validate structs that embed it, and the fields
// hold no secret, because validator's errors carry the values they complain of.
type form struct {
	Carriage       Carriage   `validate:"max=3"`
	Quiet          Quiet      `validate:"max=2"`
	XRateLimit     XRateLimit `validate:"max=2"`
	Families       int        `validate:"min=0,max=16777216"`
	Net56          int64      `validate:"min=1,max=2147483647"`
	Net48          int64      `validate:"min=1,max=2147483647,gtefield=Net56"`
	EmbeddedCookie bool       `validate:"excluded_with=InsecureCookie"`
	InsecureCookie bool
}

// permitted says, field by field, what a form may hold.
var permitted = map[string]string{
	"Carriage":       "must be Either, Both, HeaderOnly or CookieOnly",
	"Quiet":          "must be Open, RetryAfterOnly or QuietNoToken",
	"XRateLimit":     "must be NoXRateLimit, ResetInSeconds or ResetAsUnixTime",
	"Families":       "must be from 1 to 16777216, or 0 for 65536",
	"Net56":          "must be at least 1, or 0 for 8",
	"Net48":          "must be at least Net56, or 0 for 64",
	"EmbeddedCookie": "cannot go with InsecureCookie: browsers store a Partitioned cookie only if it is Secure",
}

// withDefaults fills in what cfg leaves zero.
func withDefaults(cfg Config) Config {
	if cfg.Net56 == 0 {
		cfg.Net56 = 8
	}
	if cfg.Net48 == 0 {
		cfg.Net48 = max(64, cfg.Net56)
	}
	if cfg.Families == 0 {
		cfg.Families = storeless.DefaultFamilies
	}
	if cfg.Identity == nil {
		cfg.Identity = PeerAddress
	}
	return cfg
}

// validate reports every problem of cfg that is not one of limits or secrets.
func validate(cfg *Config) error {
	var errs []error
	var invalid validator.ValidationErrors
	if errors.As(validator.New().Struct(form{
		Carriage:       cfg.Carriage,
		Quiet:          cfg.Quiet,
		XRateLimit:     cfg.XRateLimit,
		Families:       cfg.Families,
		Net56:          cfg.Net56,
		Net48:          cfg.Net48,
		EmbeddedCookie: cfg.EmbeddedCookie,
		InsecureCookie: cfg.InsecureCookie,
	}), &invalid) {
		for _, field := range invalid {
			errs = append(errs, &ConfigError{Field: field.Field(), Problem: permitted[field.Field()]})
		}
	}
	if cfg.Quiet == QuietNoToken && cfg.InsecureNoMemory {
		errs = append(errs, &ConfigError{Field: "Quiet", Problem: "QuietNoToken cannot go with InsecureNoMemory: nothing would count"})
	}
	if cfg.Page != nil && cfg.Refused != nil {
		errs = append(errs, &ConfigError{Field: "Page", Problem: "cannot go with Refused, which answers everybody"})
	}
	if cfg.Carriage == HeaderOnly && (cfg.EmbeddedCookie || cfg.InsecureCookie) {
		errs = append(errs, &ConfigError{Field: "Carriage", Problem: "HeaderOnly sends no cookie for EmbeddedCookie or InsecureCookie to change"})
	}
	return errors.Join(errs...)
}

// compileTiers compiles the limits of cfg: the base policy, and one for each
// tier. It reports all problems.
func compileTiers(cfg *Config) (base *storeless.Policy, tiers map[string]*storeless.Policy, err error) {
	base, err = storeless.Compile(cfg.Policy, cfg.Limits)
	errs := []error{err}
	tiers = make(map[string]*storeless.Policy, len(cfg.Tiers))
	for _, name := range slices.Sorted(maps.Keys(cfg.Tiers)) {
		at := fmt.Sprintf("Tiers[%q]", name)
		if name == "" {
			errs = append(errs, &ConfigError{Field: at, Problem: "a tier needs a name; identities without one get Limits"})
		}
		tier, err := storeless.Compile(cfg.Policy, cfg.Tiers[name])
		for _, problem := range problems(err) {
			if problem.Field != "Policy" { // said once, of the base
				field := at + strings.TrimPrefix(problem.Field, "Limits") // Limits[1].Quota becomes Tiers["pro"][1].Quota
				errs = append(errs, &ConfigError{Field: field, Problem: problem.Problem})
			}
		}
		if base != nil && tier != nil && !base.SameShape(tier) {
			errs = append(errs, &ConfigError{Field: at, Problem: "must have the names, algorithms and windows of Limits, in that order; tiers differ in Quota and Burst alone"})
		}
		tiers[name] = tier
	}
	return base, tiers, errors.Join(errs...)
}

// problems takes a joined error apart.
func problems(err error) []*ConfigError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*ConfigError
		for _, e := range joined.Unwrap() {
			all = append(all, problems(e)...)
		}
		return all
	}
	var one *ConfigError
	if errors.As(err, &one) {
		return []*ConfigError{one}
	}
	return nil
}

// check reports every problem of cfg at once and returns what was compiled on
// the way.
func check(cfg *Config) (base *storeless.Policy, tiers map[string]*storeless.Policy, codec *token.Codec, ch *challenger, err error) {
	base, tiers, err = compileTiers(cfg)
	err = errors.Join(err, validate(cfg))
	if cfg.Challenge != nil {
		var problem error
		ch, problem = newChallenger(cfg)
		err = errors.Join(err, problem)
	}
	if base == nil {
		return nil, nil, nil, nil, errors.Join(err, token.CheckSecrets(cfg.Secrets))
	}
	var all []*storeless.Policy
	for _, tier := range tiers {
		if tier != nil && base.SameShape(tier) {
			all = append(all, tier)
		}
	}
	codec, codecErr := token.New(cfg.Secrets, base, all...)
	return base, tiers, codec, ch, errors.Join(err, codecErr)
}
