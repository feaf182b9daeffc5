// Package exact counts where a count is worth money: "1000 a day" means 1000,
// whichever instance is asked.
//
// An exact counter is exact as long as its engine is: one that loses what it has
// acknowledged, in a crash or a failover, forgets that much. What each engine can
// lose stands in its package. A counter is also one more thing that can be slow or
// down, on every request; package middleware gives it a deadline and asks what
// should happen without it.
package exact
