// SPDX-License-Identifier: Apache-2.0

package tallyconnect_test

import (
	"log"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallyconnect"
)

// A limiter in front of a connect server answers a refused client in its own protocol.
func ExampleRefused() {
	limit, err := middleware.New(middleware.Config{
		Policy:         "greet",
		Limits:         []middleware.Limit{{Quota: 100, Window: time.Minute}},
		Secrets:        [][]byte{[]byte("an example is no place for secrets")},
		RefusalHandler: tallyconnect.Refused(),
	})
	if err != nil {
		log.Fatal(err)
	}
	path, handler := "/acme.Greet/", http.NotFoundHandler() // what connect generates
	http.Handle(path, limit.Handler(handler))
}
