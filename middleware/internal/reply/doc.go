// SPDX-License-Identifier: Apache-2.0

// Package reply sets the fields of a decision on the response, at the last moment. By then
// a handler may have cleared the map, a proxy may have copied an upstream's fields over it
// or sent a 1xx, and any handler may have let shared caches store its response.
//
// It knows the names of fields and what caches make of them, not the reasons for values.
// Stacked middlewares know each other by [Fields].
package reply
