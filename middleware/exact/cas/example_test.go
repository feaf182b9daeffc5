// SPDX-License-Identifier: Apache-2.0

package cas_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/storeless"
)

// bucket is a store of two methods. A program has a client of etcd, or of a bucket of objects, here.
type bucket struct {
	mu       sync.Mutex
	values   map[string][]byte
	revision int
	of       map[string]string
}

func (b *bucket) Load(_ context.Context, name string) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[name], b.of[name], nil
}

func (b *bucket) Swap(_ context.Context, name, revision string, value []byte, _ time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[name] != revision {
		return cas.ErrChanged
	}
	b.revision++
	b.values[name], b.of[name] = value, fmt.Sprint(b.revision)
	return nil
}

// Count in a store that replaces a value only if it is still the one that was read.
func ExampleNew() {
	counter, err := cas.New(&bucket{values: map[string][]byte{}, of: map[string]string{}}, cas.Config{})
	if err != nil {
		log.Fatal(err)
	}
	reports, err := exact.Compile("reports", []storeless.Limit{{Quota: 2, Window: time.Hour}})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		v, err := counter.Take(context.Background(), exact.Call{Key: "customer-7", Cost: 1, Policy: reports})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Admitted)
	}
	// Output:
	// true
	// true
	// false
}
