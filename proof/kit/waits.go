// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"runtime"
	"sync"
	"testing"
)

// Waits fails a test if do ends while a lock is held. On one processor, where it has to run, a
// goroutine that can run does so while this one yields.
func Waits(t *testing.T, lock sync.Locker, do func(), what string) {
	t.Helper()
	lock.Lock()
	done := make(chan struct{})
	go func() {
		do()
		close(done)
	}()
	for range 100 {
		runtime.Gosched()
	}
	select {
	case <-done:
		lock.Unlock()
		t.Fatalf("%s does not wait", what)
	default:
	}
	lock.Unlock()
	<-done
}
