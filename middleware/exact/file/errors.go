// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/middleware/exact"
)

var (
	// ErrInUse says that another process, or another counter of this one, has the
	// file open.
	ErrInUse = errors.New("file: another counter has it open; only one process can count in a file, several want a server such as exact/redis")

	// ErrDamaged says that a file is not as it was written. Counting in it would
	// give away quotas that are spent.
	ErrDamaged = errors.New("file: damaged, or never a file of counts; restore a copy, or remove it if it was one and every count in it may begin at zero")

	// ErrFixed says that the file cannot be replaced by a smaller one, so that it would grow
	// without end: it is mounted by itself, or the program may not make files beside it.
	ErrFixed = errors.New("file: it cannot be replaced by another; give it a directory of its own, mounted as a whole, in which the program may make, rename and remove files")

	// ErrStopped says that a counter has stopped for good: because it was closed,
	// because another file has its name, or because a write has failed, after which
	// the content of the disk is unknown (see "Can Applications Recover from fsync
	// Failures?", ATC 2020). A full disk is no such failure, see [Config.Keys]. It is
	// [exact.ErrNotCounted]. A counter that is opened again counts on from what the
	// disk holds.
	ErrStopped = fmt.Errorf("%w: file: the counter has stopped", exact.ErrNotCounted)
)
