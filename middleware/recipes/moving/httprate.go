// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"net"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

func beforeHTTPRate(next http.Handler) http.Handler {
	byAddress := func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(host), err
	}
	return httprate.LimitBy(5, time.Minute, byAddress)(next)
}
