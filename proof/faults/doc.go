// SPDX-License-Identifier: Apache-2.0

// Package faults does to a counter's server, and to the way to it, what befalls them: for the
// tests of the counters that have one.
package faults
