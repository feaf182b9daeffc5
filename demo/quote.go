// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

//go:embed tiers.json
var tiersJSON []byte

// products lists the names that a vendor's key may use, each with a quota of its
// own. If a vendor could invent a name, it could invent a quota.
var products = map[string]bool{"maps": true, "search": true, "mail": true}

// quote returns the policy of the paid route: its quotas are exact, because every instance
// asks the same counter.
func (o options) quote(counter exact.Counter) (middleware.Config, error) {
	tiers, err := policyfile.Tiers("tiers.json", tiersJSON)
	if err != nil {
		return middleware.Config{}, err
	}
	cfg := middleware.Config{
		Policy:   "api",
		Limits:   tiers["free"],
		Tiers:    tiers,
		Identity: customer,
		Exact:    &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: o.deadline},
		Advanced: middleware.Advanced{InsecureCookie: true}, // see form
		Logger:   o.log,
		Now:      o.now,
	}
	if o.internal != "" {
		cfg.Skip, err = middleware.ServiceCredential("Demo-Internal", o.internal)
	}
	return cfg, err
}

// customer tells whose key a request shows: Bearer demo-<tier>, and for vendors
// perhaps demo-vendor/<product>.
func customer(r *http.Request) (middleware.Identity, error) {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" {
		return middleware.Identity{}, &middleware.Denial{Status: http.StatusUnauthorized, WWWAuthenticate: `Bearer realm="demo"`}
	}
	name, product, narrowed := strings.Cut(key, "/")
	tier, known := strings.CutPrefix(name, "demo-")
	known = known && slices.Contains([]string{"free", "researcher", "compliance", "vendor"}, tier)
	if !known || narrowed && (tier != "vendor" || !products[product]) {
		return middleware.Identity{}, &middleware.Denial{Status: http.StatusForbidden}
	}
	id := middleware.APIKey(name)
	id.Tier = tier
	return id.For(product), nil
}

func quote(w http.ResponseWriter, r *http.Request) {
	d, _ := middleware.FromContext(r.Context())
	left := map[string]int64{}
	for _, l := range d.Limits() {
		left[l.Name] = l.Remaining
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]any{"quote": "Split it, and neither half lies.", "tier": d.Tier, "left": left})
}
