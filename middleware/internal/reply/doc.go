// SPDX-License-Identifier: Apache-2.0

// Package reply sets the fields of a decision on the response, at the last moment and
// whatever became of the header until then: a handler may clear the map, a proxy may copy
// an upstream's fields over it or send a 1xx, and any handler may decide that its response
// is for everybody to cache.
//
// It knows the names of fields and what caches make of them, and nothing of why a value is
// what it is. Several middlewares may be stacked; each knows of the others by [Fields].
package reply
