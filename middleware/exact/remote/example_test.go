// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/storeless"
)

// One process counts in its memory, and others ask it over HTTP.
func Example() {
	cfg := remote.Config{Secrets: [][]byte{[]byte("both ends share 32 bytes at least")}}
	handler, err := remote.Serve(memory.New(0, nil), cfg)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /counter", handler)
	server := httptest.NewServer(mux)
	defer server.Close()

	counter, err := remote.Open([]string{server.URL + "/counter"}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer counter.Close()
	reports, err := exact.Compile("reports", []storeless.Limit{{Quota: 2, Window: 24 * time.Hour}})
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
