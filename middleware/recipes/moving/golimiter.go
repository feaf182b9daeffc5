// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"log"
	"net/http"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
)

// The store is memorystore.New(&memorystore.Config{Tokens: 5, Interval: time.Minute}).
func beforeGoLimiter(store limiter.Store, next http.Handler) http.Handler {
	limit, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		log.Fatal(err)
	}
	return limit.Handle(next)
}
