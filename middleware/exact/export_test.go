// SPDX-License-Identifier: Apache-2.0

package exact

// LeasedKeys is of how many keys something is known.
func LeasedKeys(counter ArchiveCloser) int {
	l := counter.(*leasing)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
