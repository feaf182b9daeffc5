// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"runtime/debug"
)

// A Panic is the failure of a function that has panicked.
type Panic struct {
	Value any
	Stack []byte
}

func panicked(p any) error { return &Panic{p, debug.Stack()} }

// Error says what it has panicked with.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }
