// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Together runs f n times at once, and returns when all have ended.
func Together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// Seeds fails where a fuzz target has fewer seeds than there were: the go command skips a folder that has moved
// without a word.
func Seeds(t testing.TB, least int, targets ...string) {
	t.Helper()
	for _, target := range targets {
		seeds, err := os.ReadDir(filepath.Join("testdata", "fuzz", target))
		if err != nil || len(seeds) < least {
			t.Errorf("%s has %d seeds, not %d: %v", target, len(seeds), least, err)
		}
	}
}
