// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package counters

import (
	"errors"
	"os"
	"time"
)

// processorTime cannot be told here.
func processorTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func reserve(f *os.File, size int64) error { return writeZeros(f, size) }

func syncData(f *os.File) error { return f.Sync() }
