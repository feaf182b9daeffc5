// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// A program that serves two policies of a file, and reads it again when it is told to.
func ExampleOpen() {
	set, err := policyfile.Open("policies.json", policyfile.Program{
		Policies: map[string]middleware.Config{"contact": {}, "api": {}},
	})
	if err != nil {
		log.Fatal(err) // names every mistake, with its line
	}
	contact := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Thank you.") })
	http.Handle("POST /contact", set.Middleware("contact").Handler(contact))

	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		for range hup {
			_ = policyfile.Reload(set) // the log says what is wrong, and the old file stays in force
		}
	}()
}

func ExampleTiers() {
	text := []byte(`{"tiers": {
		"free": {"limits": [{"name": "day", "quota": 200, "window": "24h"}]},
		"paid": {"limits": [{"name": "day", "quota": 5000, "window": "24h"}]}}}`)
	tiers, err := policyfile.Tiers("tiers.json", text)
	if err != nil {
		log.Fatal(err)
	}
	cfg := middleware.Config{Policy: "api", Limits: tiers["free"], Tiers: tiers}
	fmt.Println(cfg.Limits[0].Quota, cfg.Tiers["paid"][0].Quota)
	// Output: 200 5000
}

// One run names every mistake, and where it is.
func ExampleTiers_incorrect() {
	_, err := policyfile.Tiers("tiers.json", []byte(`{"tiers": {
		"free": {"limits": [{"name": "day", "quota": 0, "window": "1d"}]},
		"paid": {"limits": [{"name": "day", "quoat": 5000, "quota": 5000, "window": "24h"}]}}}`))
	fmt.Println(err)
	// Output:
	// tiers.json:2: tiers.free.limits[0].quota: must be at least 1, not 0
	// tiers.json:2: tiers.free.limits[0].window: must be a duration such as "1s", "15m" or "24h"
	// tiers.json:3: tiers.paid.limits[0].quoat: is none of name, algorithm, quota, window, calendar, zone, burst, shadow
}
