// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
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
)

// counters are the values of -counter.
var counters = regexp.MustCompile(`^(memory|file:.+|rediss?://.*)?$`)

// openCounter opens the counter that -counter names, which all instances share: memory, file:PATH, or the URL of a Redis.
// Without a name it is a file of a fresh directory, which goes when the counter is closed. It returns what closes the counter.
func openCounter(spec string, now func() time.Time) (exact.Counter, func() error, error) {
	var c engine.CounterCloser
	var err error
	gone := func() error { return nil }
	switch scheme, rest, _ := strings.Cut(spec, ":"); scheme {
	case "memory":
		return memory.New(0, now), gone, nil
	case "":
		if rest, err = os.MkdirTemp("", "tallystick-demo-"); err != nil {
			return nil, nil, err
		}
		gone = func() error { return os.RemoveAll(rest) }
		c, err = file.Open(filepath.Join(rest, "counts"), file.Config{Now: now})
	case "file":
		c, err = file.Open(rest, file.Config{Now: now})
	default:
		c, err = redis.Open(spec, redis.Config{})
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("-counter: %w", err), gone())
	}
	return c, func() error { return errors.Join(c.Close(), gone()) }, nil
}
