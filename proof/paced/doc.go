// SPDX-License-Identifier: Apache-2.0

// Package paced lets real processes pace their calls to one limited service through a counter
// that they share, and judges what the service saw. It is for the tests of counters:
//
//	func TestPacedChild(t *testing.T) { paced.Child(t, open) }
//	func TestPaced(t *testing.T)      { paced.Test(t, where, open) }
//
// where is what a process opens the counter by, such as a URL.
package paced
