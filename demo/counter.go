// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/exact/remote"
)

// counters are the values of -counter.
var counters = regexp.MustCompile(`^(memory|file:.+|serve:.+|rediss?://.*|https?://.*)?$`)

// openCounter opens the counter that -counter names, which all instances share:
// memory, file:PATH, the URL of a Redis, or the URL of another demo. Without a name it is a file of
// a fresh directory, which goes when the counter is closed; with serve:HOST:PORT the same, for other
// processes too. It returns what closes the counter.
func openCounter(spec string, now func() time.Time, secrets [][]byte, stdout io.Writer) (exact.Counter, func() error, error) {
	var c engine.CounterCloser
	var err error
	switch scheme, rest, _ := strings.Cut(spec, ":"); scheme {
	case "":
		dir, err := os.MkdirTemp("", "tallystick-demo-")
		if err != nil {
			return nil, nil, err
		}
		return with(func() error { return os.RemoveAll(dir) })(openCounter("file:"+filepath.Join(dir, "counts"), now, secrets, stdout))
	case "memory":
		return memory.New(0, now), func() error { return nil }, nil
	case "serve":
		counter, done, err := openCounter("", now, secrets, stdout)
		if err != nil {
			return nil, nil, err
		}
		return with(done)(serveCounter(counter, rest, secrets, stdout))
	case "file":
		c, err = file.Open(rest, file.Config{Now: now})
	case "redis", "rediss":
		c, err = redis.Open(spec, redis.Config{})
	default:
		c, err = remote.Open([]string{spec}, remote.Config{Secrets: secrets})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("-counter: %w", err)
	}
	return c, c.Close, nil
}

// with has something done after a counter is closed, or at once if it was not opened.
func with(after func() error) func(exact.Counter, func() error, error) (exact.Counter, func() error, error) {
	return func(c exact.Counter, closed func() error, err error) (exact.Counter, func() error, error) {
		if err != nil {
			return nil, nil, errors.Join(err, after())
		}
		return c, func() error { return errors.Join(closed(), after()) }, nil
	}
}

// serveCounter serves a counter to other processes of the demo, which have the same
// -secret-file. It returns what ends that.
func serveCounter(counter exact.Counter, addr string, secrets [][]byte, stdout io.Writer) (exact.Counter, func() error, error) {
	owner, err := remote.Serve(counter, remote.Config{Secrets: secrets})
	if err != nil {
		return nil, nil, fmt.Errorf("-counter: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("-counter: %w", err)
	}
	server := &http.Server{Handler: owner, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "Counting for others on http://%s/\n", listener.Addr())
	return counter, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := server.Shutdown(ctx)
		if why := <-served; !errors.Is(why, http.ErrServerClosed) {
			err = errors.Join(err, why)
		}
		return err
	}, nil
}
