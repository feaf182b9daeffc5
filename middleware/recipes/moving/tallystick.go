// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"log"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func after(next http.Handler, secret []byte) http.Handler {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{secret}, // the same on every instance
	})
	if err != nil {
		log.Fatal(err)
	}
	return limit.Handler(next)
}
