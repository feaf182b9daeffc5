package policyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Tiers reads tiers, for Config.Tiers and, one of them, Config.Limits, from JSON such as
//
//	{"tiers": {
//	  "free": {"limits": [
//	    {"name": "burst", "algorithm": "token-bucket", "quota": 2, "window": "1s", "burst": 5},
//	    {"name": "day", "quota": 200, "window": "24h"}]},
//	  "pro": {"limits": [
//	    {"name": "burst", "algorithm": "token-bucket", "quota": 10, "window": "1s", "burst": 30},
//	    {"name": "day", "quota": 5000, "window": "24h"}]}}}
//
// The algorithm is the name that [storeless.Algorithm] prints, sliding-window if
// there is none; a window is what [time.ParseDuration] reads. What is not in the
// example is an error, and so is a tier whose limits differ from another's in
// more than quota and burst. All problems are reported, each a
// [middleware.ConfigError] whose Field is the name, a colon and the path of the value.
// The name is that of the file, for the errors alone: Tiers does not open it.
func Tiers(name string, text []byte) (map[string][]middleware.Limit, error) {
	var errs []error
	told := make(map[string]bool)
	problem := func(path, text string) {
		if !told[path] { // once is enough, in the words that know best
			errs = append(errs, &middleware.ConfigError{Field: name + ": " + path, Problem: text})
		}
		told[path] = true
	}
	if err := walk(text, problem); err != nil {
		return nil, &middleware.ConfigError{Field: name, Problem: err.Error()}
	}
	var doc tiersFile
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, errors.Join(append(errs, &middleware.ConfigError{Field: name, Problem: mistyped(text, err)})...)
	}
	checkFields(&doc, problem)
	tiers := compile(&doc, problem)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return tiers, nil
}

// checkFields reports each field that holds what its tag does not allow.
func checkFields(doc *tiersFile, problem func(path, text string)) {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("json") })
	var invalid validator.ValidationErrors
	if errors.As(v.Struct(doc), &invalid) {
		for _, field := range invalid {
			_, path, _ := strings.Cut(field.Namespace(), ".")
			text := allowed[path[strings.LastIndex(path, ".")+1:]]
			switch n := field.Value().(type) {
			case int64:
				text += fmt.Sprintf(", not %d", n)
			case string:
				if field.Field() == path { // a key of the map
					text = "a tier needs a name"
				}
			}
			problem(path, text)
		}
	}
}

// compile returns the limits of each tier, and reports what only a limit as a whole, a
// tier, or all tiers together can have wrong.
func compile(doc *tiersFile, problem func(path, text string)) map[string][]middleware.Limit {
	tiers := make(map[string][]middleware.Limit, len(doc.Tiers))
	var first *exact.Policy
	var firstTier string
	for _, tier := range slices.Sorted(maps.Keys(doc.Tiers)) {
		at := "tiers[" + tier + "]"
		var limits []middleware.Limit
		for i, l := range doc.Tiers[tier].Limits {
			window, err := time.ParseDuration(l.Window)
			if err != nil {
				problem(fmt.Sprintf("%s.limits[%d].window", at, i), allowed["window"])
				window = time.Second
			}
			limits = append(limits, middleware.Limit{Name: l.Name, Algorithm: algorithms[l.Algorithm], Quota: l.Quota, Window: window, Burst: l.Burst})
		}
		p, err := exact.Compile("tier", limits)
		for e := range middleware.ConfigErrors(err) {
			problem(at+"."+strings.ToLower(e.Field), e.Problem)
		}
		switch {
		case p == nil:
		case first == nil:
			first, firstTier = p, tier
		case !first.SameShape(p):
			problem(at+".limits", fmt.Sprintf("must have the names, algorithms and windows of tiers[%s], in that order", firstTier))
		}
		tiers[tier] = limits
	}
	return tiers
}

type tiersFile struct {
	Tiers map[string]struct {
		Limits []struct {
			Name      string `json:"name"`
			Algorithm string `json:"algorithm" validate:"omitempty,oneof=sliding-window fixed-window token-bucket leaky-bucket sliding-log rolling-day"`
			Quota     int64  `json:"quota" validate:"min=1,max=2147483647"`
			Window    string `json:"window" validate:"required"`
			Burst     int64  `json:"burst" validate:"min=0,max=2147483647"`
		} `json:"limits" validate:"min=1,max=8,dive"`
	} `json:"tiers" validate:"min=1,dive,keys,required,endkeys"`
}

// algorithms by the names they print; "" is the default.
var algorithms = map[string]storeless.Algorithm{
	"":                                middleware.SlidingWindow,
	middleware.SlidingWindow.String(): middleware.SlidingWindow,
	middleware.FixedWindow.String():   middleware.FixedWindow,
	middleware.TokenBucket.String():   middleware.TokenBucket,
	middleware.LeakyBucket.String():   middleware.LeakyBucket,
	middleware.SlidingLog.String():    middleware.SlidingLog,
	middleware.RollingDay.String():    middleware.RollingDay,
}
