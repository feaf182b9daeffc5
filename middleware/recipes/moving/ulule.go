// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"net/http"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
)

// The store is memory.NewStore(), of its drivers.
func beforeUlule(store limiter.Store, next http.Handler) http.Handler {
	rate := limiter.Rate{Period: time.Minute, Limit: 5}
	return stdlib.NewMiddleware(limiter.New(store, rate)).Handler(next)
}
