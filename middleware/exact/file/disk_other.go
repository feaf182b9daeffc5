// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package file

import (
	"errors"
	"os"
)

func (*osDisk) lock(string, *os.File) (bool, error) { return false, errors.ErrUnsupported }

func (*osDisk) Replace(now, _ handle, _, _ string) (handle, error) { return now, errors.ErrUnsupported }

var fullDisk []error

// otherMount is the error if a name would be on another mount than its file.
var otherMount error = errors.ErrUnsupported
