// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"net/http"

	"github.com/tallystick/tallystick/storeless"
)

// HandlerCost returns a handler that limits next, like [Middleware.Handler], where each
// request has the given cost: the price beside the route that has it.
//
//	http.Handle("GET /items/{id}", limit.Handler(item))
//	http.Handle("POST /report", limit.HandlerCost(25, report))
//
// All routes of a Middleware share its quotas. [Config].Cost is not asked. A cost of 0 peeks:
// the request is counted nowhere, and is told how the limits stand. A cost above a quota of
// the client is answered 403. [Settle] changes the cost as it does any other.
//
// A page that checks before it sends, see docs/browser.md, names the same number: the
// endpoint does not know which route it asks for.
//
// It panics if cost is negative or above [storeless.MaxQuota], which is a mistake in the program.
func (m *Middleware) HandlerCost(cost int64, next http.Handler) http.Handler {
	m.loaded()
	if cost < 0 || cost > storeless.MaxQuota {
		panic(fmt.Sprintf("middleware: a route costs from 0 to %d, not %d", int64(storeless.MaxQuota), cost))
	}
	price := func(*http.Request) int64 { return cost }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.engine.Load().serve(w, r, next, price)
	})
}
