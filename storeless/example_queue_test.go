// SPDX-License-Identifier: Apache-2.0

package storeless_test

import (
	"crypto/rand"
	"fmt"
	"log"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A job of a queue. Its tenant puts into each job the token that came with the last result.
type job struct{ tenant, token string }

// A real secret comes from where the program keeps such things, as openssl rand -base64 32 makes one.
var secrets = [][]byte{[]byte(rand.Text() + rand.Text())}

// A worker is one of several processes that take jobs from a queue. They share the secrets, and no store.
type worker struct {
	limiter *storeless.Limiter
	codec   *token.Codec
}

func newWorker() worker {
	limits := storeless.Config{Policy: "jobs", Limits: []storeless.Limit{{Quota: 3, Window: time.Minute}}}
	limiter, err := storeless.New(limits)
	if err != nil {
		log.Fatal(err)
	}
	codec, err := token.New(limits, secrets)
	if err != nil {
		log.Fatal(err)
	}
	return worker{limiter, codec}
}

// do returns the token for the tenant's next job, and how long a job that is refused has to wait.
func (w worker) do(now time.Time, j job) (next string, wait time.Duration) {
	shown, _ := w.codec.Verify(now, j.tenant, j.token) // a token that is refused is as if absent
	tally, verdict := w.limiter.Take(now, j.tenant, shown, 1)
	// If it is admitted, here is the place to do it.
	return w.codec.Sign(j.tenant, tally), verdict.Wait
}

// The consumers of a queue limit each tenant to three jobs a minute, on whichever worker they land.
func Example() {
	workers, now := []worker{newWorker(), newWorker()}, time.Unix(1_700_000_000, 0)
	token := ""
	for n := range 5 {
		var wait time.Duration
		token, wait = workers[n%2].do(now, job{"acme", token})
		fmt.Println("job", n, "on worker", n%2, "waits", wait)
	}
	// Output:
	// job 0 on worker 0 waits 0s
	// job 1 on worker 1 waits 0s
	// job 2 on worker 0 waits 0s
	// job 3 on worker 1 waits 1m0s
	// job 4 on worker 0 waits 1m0s
}
