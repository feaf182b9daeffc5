// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"net/http"
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
	id := middleware.APIKey(name)
	switch name {
	case "demo-free", "demo-researcher", "demo-compliance", "demo-vendor":
		id.Tier = strings.TrimPrefix(name, "demo-")
	default:
		return middleware.Identity{}, &middleware.Denial{Status: http.StatusForbidden}
	}
	if narrowed && (id.Tier != "vendor" || !products[product]) {
		return middleware.Identity{}, &middleware.Denial{Status: http.StatusForbidden}
	}
	return id.For(product), nil
}

func quote(w http.ResponseWriter, r *http.Request) {
	type answer struct {
		Quote string         `json:"quote"`
		Tier  string         `json:"tier,omitempty"`
		Left  map[string]int `json:"left,omitempty"`
	}
	a := answer{Quote: "Split it, and neither half lies."}
	if d, ok := middleware.FromContext(r.Context()); ok {
		a.Tier, a.Left = d.Tier, make(map[string]int)
		for _, l := range d.Limits() {
			a.Left[l.Name] = int(l.Remaining)
		}
	}
	writeJSON(w, http.StatusOK, "application/json", a)
}
