// Package guardedcall stands between requests and an exact counter.
//
// A [Guard] bounds how many calls are out, gives each a deadline, repeats one whose
// answer was lost, and keeps calls away from a counter that fails. It tells a crowd
// from an outage, so that nobody can flood a counter to get into the fallback.
// [Refusals] remember what a counter has refused.
//
// It logs nothing and decides nothing about a request: the caller does.
package guardedcall
