package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

// checkCounter says what is wrong with the value of -counter, before anything is
// opened.
func checkCounter(spec string) error {
	path, file := strings.CutPrefix(spec, "file:")
	if spec == "" || spec == "memory" || file && path != "" || isRedis(spec) {
		return nil
	}
	// Not the text itself: it may be a URL with a password, mistyped.
	return errors.New("-counter must be memory, file:PATH or redis://HOST:PORT/DB")
}

func isRedis(spec string) bool {
	return strings.HasPrefix(spec, "redis://") || strings.HasPrefix(spec, "rediss://")
}

// openCounter opens the counter that -counter names, which all instances share:
// memory, file:PATH, or the URL of a Redis. Without a name it is a file of a fresh directory, which
// goes when the counter is closed.
func openCounter(spec string, now func() time.Time) (exact.Counter, io.Closer, error) {
	if spec == "memory" {
		return exact.NewMemory(0, now), closers(nil), nil
	}
	if isRedis(spec) {
		c, err := redis.Open(spec, redis.Config{})
		if err != nil {
			return nil, nil, fmt.Errorf("-counter: %w", err)
		}
		return c, c, nil
	}
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

// closers are closed one after the other.
type closers []func() error

// Close implements [io.Closer].
func (all closers) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
