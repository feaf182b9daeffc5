// SPDX-License-Identifier: Apache-2.0

// Package truth says what a limit admits, from the definitions in docs/bounds.md and in arbitrary integers. Oracles of
// tests ask it, so that a definition is written once, apart from the code that it judges: it imports nothing of the
// product, and a test holds that.
//
// Its times are integers of any one unit. Tests use microseconds since 1970.
package truth
