// SPDX-License-Identifier: Apache-2.0

package file

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A log is a file that groups are appended to.
type log struct {
	f handle
	state
	stated int64  // how many bytes of reserved the file itself says it has
	buf    []byte // of a group
}

const (
	// leastRoom and mostRoom bound how much is reserved at a time: a quarter of the file.
	leastRoom = 64 << 10
	mostRoom  = 16 << 20

	// slack stays free of what is reserved, so that no group begins where it ends: a
	// file that is cut there has lost a part of a group, and shows it.
	slack = 64

	maxNumber = 1 + binary.MaxVarintLen64 // bytes of a record
)

// errNoRoom says that the disk is full, and that nothing was written.
var errNoRoom = errors.New("file: no room on the disk")

// room is how much is reserved at a time.
func (l *log) room() int64 {
	return min(max(l.end/4, leastRoom), mostRoom) / 4096 * 4096
}

// low reports whether less is left of what is reserved than is kept for accounts that are
// there already.
func (l *log) low() bool { return l.reserved-l.end < l.room()/2 }

// reserve makes room for n bytes and half of one reservation. It fails with errNoRoom if the
// disk has none.
func (l *log) reserve(n int64) error {
	need := l.end + n + slack + l.room()/2
	if need <= l.reserved {
		return nil
	}
	to := (max(need, l.reserved+l.room()) + 4095) / 4096 * 4096
	if err := l.f.Reserve(l.reserved, to); err != nil {
		return noRoom(err)
	}
	// The file must be longer after a power cut too, before it may say so. A failed sync is
	// never a lack of room, whatever its error: what it left is unknown.
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.reserved = to
	return nil
}

// noRoom makes errNoRoom of what the disk says when it is full.
func noRoom(err error) error {
	for _, full := range fullDisk {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", errNoRoom, err)
		}
	}
	return err
}

// append writes a group, of records that are in buf behind a newGroup, and puts it on disk.
// It makes room if there is too little.
func (l *log) append() error {
	if n := span(int64(len(l.buf)) + maxNumber); l.end+n+slack > l.reserved {
		if err := l.reserve(n); err != nil {
			return err
		}
	}
	if err := l.write(kindLog); err != nil {
		return err
	}
	return l.f.Sync()
}

// write writes the group: it is on disk after sync. It fails with errNoRoom if there is
// none; then nothing has become of it, and the next takes its place.
func (l *log) write(kind byte) error {
	if kind == kindEnd || kind == kindLog && l.stated < l.reserved {
		l.buf = appendNumber(l.buf, tagReserved, uint64(l.reserved))
	}
	l.buf = sealGroup(l.buf, kind, l.nonce, l.sequence)
	n := int64(len(l.buf))
	if l.end+n+slack > l.reserved {
		return errNoRoom
	}
	if err := l.mend(); err != nil {
		return err
	}
	if _, err := l.f.WriteAt(l.buf, l.end); err != nil {
		l.torn = l.end + n
		return noRoom(err)
	}
	l.end += n
	l.sequence++
	if kind != kindSnapshot {
		l.stated = l.reserved
	}
	return nil
}

// mend writes zeros over what a crash, or a disk that was full, has left of a group, before
// another takes its place: what a crash would leave of both could not be told from damage.
func (l *log) mend() error {
	if l.torn == 0 {
		return nil
	}
	if _, err := l.f.WriteAt(make([]byte, l.torn-l.end), l.end); err != nil {
		return noRoom(err)
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.torn = 0
	return nil
}

// startLog begins a file: what is written to it until end is its snapshot.
func startLog(f handle, nonce uint64, snapshot int64) (*log, error) {
	l := &log{f: f}
	l.nonce, l.sequence, l.end = nonce, 1, groupAt
	if err := l.reserve(snapshot); err != nil {
		return nil, err
	}
	_, err := f.WriteAt(appendHead(nil, version, nonce), 0)
	return l, err
}

// snapshot adds accounts.
func (l *log) snapshot(accounts []account) error {
	l.buf = newGroup(l.buf)
	for _, a := range accounts {
		l.buf = appendAccount(l.buf, a.name, []byte(a.bytes))
	}
	if err := l.reserve(span(int64(len(l.buf)))); err != nil {
		return err
	}
	l.records += uint64(len(accounts))
	return l.write(kindSnapshot)
}

// endSnapshot ends the snapshot, and puts all of the file on disk.
func (l *log) endSnapshot() error {
	if err := l.reserve(0); err != nil {
		return err
	}
	l.buf = appendNumber(newGroup(l.buf), tagNumber, l.records)
	if err := l.write(kindEnd); err != nil {
		return err
	}
	return l.f.Sync()
}
