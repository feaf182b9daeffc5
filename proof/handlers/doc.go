// SPDX-License-Identifier: Apache-2.0

// Package handlers is what tests send requests to: limited handlers on a clock that is moved by hand, the requests, what
// answers say, servers in front of them, and counters that fail. The tests of middleware, and the bounds and
// threats of the whole system, stand on it.
package handlers
