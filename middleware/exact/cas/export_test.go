// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Margin is for how much longer than it counts an account is kept.
const Margin = margin

// Counter is the type that New returns.
type Counter = counter

// Engine returns the counter without what makes one call of several.
func (c *counter) Engine() engine.Batcher { return c.engine }

// DrawBy has pauses drawn by a function: of n, a number from 0 to n-1.
func (c *counter) DrawBy(random func(n int64) int64) { c.engine.random = random }

// StoreName returns the name of an account in a store.
func StoreName(account string) string { return storeName(account) }
