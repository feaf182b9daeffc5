// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

// race says whether the race detector watches.
const race = "off"
