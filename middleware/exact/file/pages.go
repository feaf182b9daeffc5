package file

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The engine follows pages without asking whether they lead anywhere: a damaged one can
// lead back to itself, and hold it for ever. So the tree is walked before it may, by the
// format of its files (version 2, in the byte order of the machine), of which this knows
// no more than where a page leads:
//
//	page     id u64, flags u16, count u16, overflow u32, elements
//	branch   pos u32, ksize u32, child u64
//	leaf     flags u32, pos u32, ksize u32, vsize u32; with flag 1 the value, which is at
//	         pos+ksize from the element, begins with the root u64 of a bucket
//	meta     magic u32, version u32, page size u32, flags u32, root u64, sequence u64,
//	         freelist u64, pages u64, transaction u64, FNV-1a of all that u64
const (
	headerSize  = 16
	elementSize = 16
	metaSize    = 64

	branchFlag  = 1
	leafFlag    = 2
	bucketFlag  = 1
	boltMagic   = 0xED0CDAED
	boltVersion = 2
)

// pages are those of one file.
type pages struct {
	file io.ReaderAt
	size uint64 // of one
	most uint64 // how many there are
	seen map[uint64]bool
}

var order = binary.NativeEndian

// inspectPages checks that the tree of a file is one: that its pages are in the file,
// and that each is reached once.
func inspectPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("%w: it has no bytes", ErrDamaged)
	}
	var newest []byte
	for _, at := range []int64{0, int64(os.Getpagesize())} {
		b := make([]byte, headerSize+metaSize)
		if n, _ := f.ReadAt(b, at); n < len(b) {
			continue
		}
		meta := b[headerSize:]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaSize-8])
		valid := order.Uint32(meta) == boltMagic && order.Uint32(meta[4:]) == boltVersion && order.Uint64(meta[56:]) == sum.Sum64()
		if valid && (newest == nil || order.Uint64(meta[48:]) > order.Uint64(newest[48:])) {
			newest = meta
		}
	}
	if newest == nil {
		return nil // the engine says it better
	}
	p := &pages{file: f, size: uint64(order.Uint32(newest[8:])), most: order.Uint64(newest[40:]), seen: make(map[uint64]bool)}
	if p.size < 1024 || p.most > uint64(info.Size())/p.size+1 {
		return fmt.Errorf("%w: it has been cut", ErrDamaged)
	}
	return p.walk(order.Uint64(newest[16:]))
}

// walk visits a page, and those it leads to.
func (p *pages) walk(id uint64) error {
	wrong := fmt.Errorf("%w: page %d leads nowhere", ErrDamaged, id)
	if id < 2 || id >= p.most {
		return wrong
	}
	header := make([]byte, headerSize)
	if _, err := p.file.ReadAt(header, int64(id*p.size)); err != nil {
		return wrong
	}
	flags, count, overflow := order.Uint16(header[8:]), uint64(order.Uint16(header[10:])), uint64(order.Uint32(header[12:]))
	if order.Uint64(header) != id || flags != branchFlag && flags != leafFlag || id+overflow >= p.most {
		return wrong
	}
	for i := range overflow + 1 {
		if p.seen[id+i] {
			return wrong
		}
		p.seen[id+i] = true
	}
	b := make([]byte, (overflow+1)*p.size)
	if _, err := p.file.ReadAt(b, int64(id*p.size)); err != nil || headerSize+count*elementSize > uint64(len(b)) {
		return wrong
	}
	for i := range count {
		at := headerSize + i*elementSize
		element := b[at : at+elementSize]
		switch {
		case flags == branchFlag:
			if err := p.walk(order.Uint64(element[8:])); err != nil {
				return err
			}
		case order.Uint32(element)&bucketFlag != 0:
			value := at + uint64(order.Uint32(element[4:])) + uint64(order.Uint32(element[8:]))
			if value+8 > uint64(len(b)) {
				return wrong
			}
			if root := order.Uint64(b[value:]); root != 0 { // else it is within the element
				if err := p.walk(root); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
