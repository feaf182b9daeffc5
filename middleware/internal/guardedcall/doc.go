// SPDX-License-Identifier: Apache-2.0

// Package guardedcall stands between requests and an exact counter.
//
// A [Guard] bounds how many calls are out, by how long their answers take; has callers
// take turns for what is free; gives each call a deadline; repeats one whose answer was
// lost; and keeps calls away from a counter that fails. It tells load from an outage,
// so that nobody can flood a counter to get into the fallback. A counter whose keys lie
// in several parts is guarded part by part. [Refusals] remember what a counter has
// refused.
//
// It logs nothing and decides nothing about a request: the caller does.
package guardedcall
