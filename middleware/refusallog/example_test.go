// SPDX-License-Identifier: Apache-2.0

package refusallog_test

import (
	"log"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/refusallog"
)

// One line a minute says which clients are refused most, by pseudonym.
func Example() {
	refusals := refusallog.New(refusallog.Config{})
	defer refusals.Flush()
	limit, err := middleware.New(middleware.Config{
		Policy:     "contact",
		Limits:     []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:    [][]byte{[]byte("an example is no place for secrets")},
		OnDecision: refusals.OnDecision,
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = limit // wrap handlers by it
}
