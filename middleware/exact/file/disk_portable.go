// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package file

import "os"

func syncData(f *os.File) error { return f.Sync() }

func reserve(f *os.File, from, to int64) error { return writeZeros(f, from, to) }
