// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/tallystick/tallystick/middleware/exact/file"
)

// A memDisk is a disk in memory, whose power can be cut: what was not synced is then
// there, sector by sector, or not. It can be full, and fail.
type memDisk struct {
	mu       sync.Mutex
	names    map[string]*inode // as programs see them
	kept     map[string]*inode // as a power cut leaves them
	capacity int64             // bytes of all files; 0: no bound
	fail     func(op, path string) error
	ops      int // that change what is on disk
	reserves int
	largest  int // bytes of a write
}

// An inode is a file, whatever it is called.
type inode struct {
	seen, kept []byte
	writes     []extent // since the last sync
	locked     *memFile
}

type extent struct{ from, to int64 }

type memFile struct {
	*inode
	disk *memDisk
	path string
}

const memSector = 512

func newMemDisk() *memDisk {
	return &memDisk{names: map[string]*inode{}, kept: map[string]*inode{}}
}

// do counts an operation, and fails if it is to.
func (d *memDisk) do(op, path string) error {
	if op != "read" {
		d.ops++
	}
	if d.fail != nil {
		return d.fail(op, path)
	}
	return nil
}

// fails has operations of a name fail from now on; none, if err is nil.
func (d *memDisk) fails(op string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = func(now, _ string) error {
		if now == op {
			return err
		}
		return nil
	}
}

// holds limits its size from now on.
func (d *memDisk) holds(capacity int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = capacity
}

func (d *memDisk) open(path string, n *inode) (file.Handle, error) {
	return &memFile{n, d, path}, nil
}

func (d *memDisk) Open(path string) (file.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[path]
	if n == nil {
		return nil, fs.ErrNotExist
	}
	return d.open(path, n)
}

func (d *memDisk) Create(path string, _ file.Handle) (file.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("create", path); err != nil {
		return nil, err
	}
	if d.names[path] != nil {
		return nil, fs.ErrExist
	}
	d.names[path] = new(inode)
	return d.open(path, d.names[path])
}

func (d *memDisk) Name(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[to] != nil {
		return fs.ErrExist
	}
	if err := d.do("name", to); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	return nil
}

func (d *memDisk) Replace(now, next file.Handle, from, to string) (file.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("replace", to); err != nil {
		return now, err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	next.(*memFile).path = to
	return next, nil
}

func (d *memDisk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[path] == nil {
		return fs.ErrNotExist
	}
	if err := d.do("remove", path); err != nil {
		return err
	}
	delete(d.names, path)
	return nil
}

func (d *memDisk) Same(path string, f file.Handle) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[path] == f.(*memFile).inode, nil
}

func (d *memDisk) SyncNames(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("syncnames", dir); err != nil {
		return err
	}
	d.kept = maps.Clone(d.names)
	return nil
}

func (d *memDisk) Lock(_ string, f file.Handle) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := f.(*memFile)
	if m.locked != nil && m.locked != m {
		return false, nil
	}
	m.locked = m
	return true, nil
}

func (d *memDisk) Unlock() error { return nil }

// used is what all files take.
func (d *memDisk) used() (n int64) {
	for _, i := range d.names {
		n += int64(len(i.seen))
	}
	return n
}

func (f *memFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.locked == f {
		f.locked = nil
	}
	return f.disk.do("close", f.path)
}

func (f *memFile) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.seen)), nil
}

func (f *memFile) ReadAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do("read", f.path); err != nil {
		return 0, err
	}
	n := copy(b, f.seen[min(at, int64(len(f.seen))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes. One that fails has written some sectors.
func (f *memFile) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.do("write", f.path)
	f.disk.largest = max(f.disk.largest, len(b))
	if err != nil {
		b = b[:max(0, (at+int64(len(b)/2))/memSector*memSector-at)]
	}
	if end := at + int64(len(b)); end > int64(len(f.seen)) {
		if f.disk.capacity > 0 && f.disk.used()+end-int64(len(f.seen)) > f.disk.capacity {
			return 0, syscall.ENOSPC
		}
		f.seen = append(f.seen, make([]byte, end-int64(len(f.seen)))...)
	}
	copy(f.seen[at:], b)
	f.writes = append(f.writes, extent{at, at + int64(len(b))})
	return len(b), err
}

func (f *memFile) Reserve(from, to int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do("reserve", f.path); err != nil {
		return err
	}
	f.disk.reserves++
	more := to - int64(len(f.seen))
	if more > 0 && f.disk.capacity > 0 && f.disk.used()+more > f.disk.capacity {
		return syscall.ENOSPC
	}
	if more > 0 {
		f.seen = append(f.seen, make([]byte, more)...)
	}
	return nil
}

func (f *memFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do("sync", f.path); err != nil {
		return err
	}
	if more := len(f.seen) - len(f.kept); more > 0 {
		f.kept = append(f.kept, make([]byte, more)...)
	}
	for _, w := range f.writes {
		copy(f.kept[w.from:w.to], f.seen[w.from:w.to])
	}
	f.writes = nil
	return nil
}

// cut returns what is on disk after the power was cut: of what was not synced, some
// sectors, and of names either all or those that were.
func (d *memDisk) cut(rng *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newMemDisk()
	names := d.kept
	if rng.IntN(2) == 0 {
		names = d.names
	}
	for path, n := range names {
		b := slices.Clone(n.kept)
		for _, w := range n.writes {
			if end := min(w.to, int64(len(n.seen))); int64(len(b)) < end {
				b = append(b, make([]byte, end-int64(len(b)))...)
			}
			how := rng.IntN(4) // all, none, or some
			for at := w.from; at < w.to; {
				next := min(at/memSector*memSector+memSector, w.to)
				if how == 0 || how > 1 && rng.IntN(2) == 0 {
					copy(b[at:next], n.seen[at:next])
				}
				at = next
			}
		}
		after.names[path] = &inode{seen: b, kept: slices.Clone(b)}
	}
	after.kept = maps.Clone(after.names)
	return after
}

// bytes is what a file has.
func (d *memDisk) bytes(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[path] == nil {
		return nil
	}
	return slices.Clone(d.names[path].seen)
}

// left are the names of all files.
func (d *memDisk) left() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names))
}

// put makes a file.
func (d *memDisk) put(path string, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[path] = &inode{seen: slices.Clone(b), kept: slices.Clone(b)}
	d.kept = maps.Clone(d.names)
}

const memPath = "/counts"

// memFileOf reads bytes.
func memFileOf(b []byte) io.ReaderAt { return bytes.NewReader(b) }
