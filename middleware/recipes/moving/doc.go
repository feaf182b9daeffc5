// SPDX-License-Identifier: Apache-2.0

// Package moving has, for each of some limiters of net/http, a handler that it limits to five
// requests a minute for each address, and how Tallystick is told the same. docs/moving.md
// prints them, and what the tests of this package have measured of both.
package moving
