// SPDX-License-Identifier: Apache-2.0

// Package moving has, for each of some limiters of net/http, a handler that it limits to five
// requests a minute for each address, and how Tallystick is told the same. docs/recipes.md
// prints the latter, and what the tests of this package have measured of all.
package moving
