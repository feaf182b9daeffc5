// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"maps"
	"slices"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

type tiersKeys struct {
	Tiers map[string]*tierKeys `json:"tiers" validate:"required,min=1,dive,keys,tier,endkeys,required"`
}

// Tiers reads tiers alone, for Config.Tiers and, one of them, Config.Limits, from JSON such as
//
//	{"tiers": {
//	  "free": {"limits": [
//	    {"name": "burst", "algorithm": "token-bucket", "quota": 2, "window": "1s", "burst": 5},
//	    {"name": "day", "quota": 200, "window": "24h"}]},
//	  "pro": {"limits": [
//	    {"name": "burst", "algorithm": "token-bucket", "quota": 10, "window": "1s", "burst": 30},
//	    {"name": "day", "quota": 5000, "window": "24h"}]}}}
//
// The keys are the same as below "tiers" in a file of [Open]. Tiers may differ in quota
// and burst only; anything else is an error. All problems are reported, as by Open. The
// name of the file is for errors alone: Tiers does not open it.
func Tiers(name string, text []byte) (map[string][]middleware.Limit, error) {
	var doc tiersKeys
	p := readShape(name, text, &doc)
	tiers := make(map[string][]middleware.Limit, len(doc.Tiers))
	var first *exact.Policy
	var firstTier string
	for _, tier := range slices.Sorted(maps.Keys(doc.Tiers)) {
		at := join("tiers", tier)
		if p.below(at) {
			continue
		}
		limits := limitsOf(doc.Tiers[tier].Limits)
		compiled, err := exact.Compile("tier", limits)
		for e := range storeless.ConfigErrors(err) {
			p.add(at+"."+pathOf(e.Field), "%s", spelled(e.Problem))
		}
		switch {
		case compiled == nil:
		case first == nil:
			first, firstTier = compiled, tier
		case !first.SameShape(compiled):
			p.add(at+".limits", "must have the names, algorithms, windows and zones of tiers.%s, in that order", firstTier)
		}
		tiers[tier] = limits
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return tiers, nil
}
