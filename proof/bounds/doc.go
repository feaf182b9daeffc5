// SPDX-License-Identifier: Apache-2.0

// Package bounds shows what a client gets of a whole site, at most and at least: one instance or many, with old tokens, dropped
// tokens and bought ones, while memories are full, instances restart and counters fail. docs/bounds.md has the rows. There are tests alone.
package bounds
