// SPDX-License-Identifier: Apache-2.0

package exact

import "github.com/tallystick/tallystick/internal/limiter"

// Tokens is the same policy for tokens, where a sliding window stands for what they cannot carry.
func (p *Policy) Tokens() *limiter.Policy { return p.tokens }

// LeasedKeys is of how many keys something is known.
func LeasedKeys(counter ArchiveCloser) int {
	l := counter.(*leasing)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
