// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// drain is how long requests under way have, when a process is asked to end.
const drain = 10 * time.Second

// Serve is an instance as a process of its own, until ctx is done. It serves as a line of its standard input says, says where as a line of
// JSON on the standard output, and ends with the process that holds the other end of the input.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var cfg Config
	if err := json.NewDecoder(stdin).Decode(&cfg); err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() {
		_, err := stdin.Read(make([]byte, 1))
		gone <- fmt.Errorf("the lab is gone: %w", errors.Join(err, io.EOF))
	}()
	before := runtime.NumGoroutine()
	s, where, err := newSite(cfg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(where); err != nil {
		return err
	}
	select {
	case err := <-gone:
		return err
	case err := <-s.failed:
		return err
	case <-ctx.Done():
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer stop()
	return errors.Join(s.Stop(ctx), left(before, drain))
}

// left waits for goroutines that are about to end, and says which others there are.
func left(before int, patience time.Duration) error {
	http.DefaultClient.CloseIdleConnections() // of the ReverseProxy
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			var all strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
			return fmt.Errorf("%d goroutines are left, of %d before: %s", runtime.NumGoroutine(), before, all.String())
		}
	}
	return nil
}
