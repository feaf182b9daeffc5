// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/exact/remote"
)

// checkCounter says what is wrong with the value of -counter, before anything is
// opened.
func checkCounter(spec string) error {
	path, file := strings.CutPrefix(spec, "file:")
	addr, serve := strings.CutPrefix(spec, "serve:")
	if spec == "" || spec == "memory" || file && path != "" || serve && addr != "" || isRedis(spec) || isRemote(spec) {
		return nil
	}
	// Not the text itself: it may be a URL with a password, mistyped.
	return errors.New("-counter must be memory, file:PATH, redis://HOST:PORT/DB, serve:HOST:PORT or http://HOST:PORT/")
}

// isShared reports whether processes of the demo ask each other, and so need one secret.
func isShared(spec string) bool {
	return isRemote(spec) || strings.HasPrefix(spec, "serve:")
}

// isRemote reports whether another demo has the counter, by -counter serve.
func isRemote(spec string) bool {
	return strings.HasPrefix(spec, "http://") || strings.HasPrefix(spec, "https://")
}

func isRedis(spec string) bool {
	return strings.HasPrefix(spec, "redis://") || strings.HasPrefix(spec, "rediss://")
}

// openCounter opens the counter that -counter names, which all instances share:
// memory, file:PATH, the URL of a Redis, or the URL of another demo. Without a name it is a file of
// a fresh directory, which goes when the counter is closed; with serve:HOST:PORT the same, for other
// processes too.
func openCounter(spec string, now func() time.Time, secrets [][]byte, stdout io.Writer, log *slog.Logger) (exact.Counter, io.Closer, error) {
	addr, serve := strings.CutPrefix(spec, "serve:")
	var c engine.CounterCloser
	var err error
	switch {
	case spec == "memory":
		return memory.New(0, now), closers(nil), nil
	case serve:
		counter, after, err := openCounter("", now, secrets, stdout, log)
		if err != nil {
			return nil, nil, err
		}
		served, err := serveCounter(counter, addr, secrets, stdout)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("-counter: %w", err), after.Close())
		}
		return counter, closers{served.Close, after.Close}, nil
	case isRedis(spec):
		c, err = redis.Open(spec, redis.Config{})
	case isRemote(spec):
		c, err = remote.Open([]string{spec}, remote.Config{Secrets: secrets})
	default:
		return openFile(spec, now)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("-counter: %w", err)
	}
	return c, c, nil
}

// openFile opens a counter in file:PATH or, without a name, in a directory that goes with it.
func openFile(spec string, now func() time.Time) (exact.Counter, io.Closer, error) {
	path, named := strings.CutPrefix(spec, "file:")
	var after closers
	if !named {
		dir, err := os.MkdirTemp("", "tallystick-demo-")
		if err != nil {
			return nil, nil, err
		}
		path, after = filepath.Join(dir, "counts"), closers{func() error { return os.RemoveAll(dir) }}
	}
	c, err := file.Open(path, file.Config{Now: now})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("-counter: %w", err), after.Close())
	}
	return c, append(closers{c.Close}, after...), nil
}
