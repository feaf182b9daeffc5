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
)

// checkCounter says what is wrong with the value of -counter, before anything is
// opened.
func checkCounter(spec string) error {
	if path, ok := strings.CutPrefix(spec, "file:"); spec == "" || spec == "memory" || ok && path != "" {
		return nil
	}
	return fmt.Errorf("-counter is %q; it must be memory or file:PATH", spec)
}

// openCounter opens the counter that -counter names, which all instances share:
// memory, or file:PATH. Without a name it is a file of a fresh directory, which
// goes when the counter is closed.
func openCounter(spec string, now func() time.Time) (exact.Counter, io.Closer, error) {
	if spec == "memory" {
		return exact.NewMemory(0, now), closers(nil), nil
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
