// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"net/http"

	"github.com/didip/tollbooth/v7"
)

func beforeTollbooth(next http.Handler) http.Handler {
	limit := tollbooth.NewLimiter(5.0/60, nil) // requests a second
	limit.SetBurst(5)
	return tollbooth.LimitHandler(limit, next)
}
