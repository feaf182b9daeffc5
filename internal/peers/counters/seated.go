// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A seated counter holds all keys, and is ready to be asked.
type seated struct {
	Counter
	*Opened
	sizes sizes
}

// sizes are what each key takes, in bytes; negative: there is no such place.
type sizes struct{ heap, disk, server float64 }

// seat opens a counter, has it count one for each key, and looks at what that takes. One
// with files is opened anew: a file that is still open may be larger than what it holds.
func seat(c Counter, dir string, hot, keys []string, callers int) (*seated, error) {
	dir = filepath.Join(dir, strings.ReplaceAll(c.Name, "/", "-"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	o, err := c.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	s := &seated{Counter: c, Opened: o, sizes: sizes{-1, -1, -1}}
	if err := s.settle(dir, hot, keys, callers); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Name, err), s.Close())
	}
	return s, nil
}

func (s *seated) settle(dir string, hot, keys []string, callers int) error {
	// What is there once, such as connections, is there before anything is counted.
	if err := first(s.Opened, hot, 1); err != nil {
		return err
	}
	if _, err := (load{hot, callers}).slice(s.Opened, 20*time.Millisecond); err != nil {
		return err
	}
	heap, server, err := s.holds()
	if err != nil {
		return err
	}
	if err := first(s.Opened, keys, callers); err != nil {
		return err
	}
	heapAfter, serverAfter, err := s.holds()
	if err != nil {
		return err
	}
	n := float64(len(keys))
	s.sizes.heap = float64(heapAfter-heap) / n
	if s.Server != nil {
		s.sizes.server = float64(serverAfter-server) / n
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	disk, err := bytesIn(dir)
	if err != nil {
		return err
	}
	s.sizes.disk = float64(disk) / n
	s.Opened, err = s.Open(dir)
	if err != nil {
		s.Opened = &Opened{Close: func() error { return nil }}
	}
	return err
}

// holds returns the live heap of this process, and what the server has allocated.
func (s *seated) holds() (heap, server int64, err error) {
	if s.Server != nil {
		server, err = s.Server.Bytes()
	}
	runtime.GC()
	runtime.GC() // what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), server, err
}
