// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	appended = 128     // bytes, somewhat more than a group of one call
	logSize  = 4 << 20 // the next pass begins at the start again
)

// measureDisk appends to a file for which there is room, and puts each piece on disk:
// what nothing that is durable can do without.
func measureDisk(dir string, long time.Duration) (h *histogram, err error) {
	f, err := os.Create(filepath.Join(dir, "appended"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if err := errors.Join(reserve(f, logSize), f.Sync()); err != nil {
		return nil, err
	}
	h = new(histogram)
	piece := make([]byte, appended)
	began := time.Now()
	for last := began; h.n == 0 || last.Sub(began) < long; {
		piece[0]++
		if _, err := f.WriteAt(piece, int64(h.n)*appended%logSize); err != nil {
			return nil, err
		}
		if err := syncData(f); err != nil {
			return nil, err
		}
		now := time.Now()
		h.add(now.Sub(last))
		last = now
	}
	return h, nil
}

// writeZeros reserves room where the system has no other way.
func writeZeros(f *os.File, size int64) error {
	_, err := f.WriteAt(make([]byte, size), 0)
	return err
}

// bytesIn returns the sizes of all files in a directory.
func bytesIn(dir string) (total int64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}
