// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A state is where the log of a file stands.
type state struct {
	nonce    uint64
	sequence uint64 // of the next group
	end      int64  // where it goes
	reserved int64  // how many bytes the file has at least, as it says itself
	torn     int64  // 0, or up to where a crash has left a part of a group behind end
	records  uint64 // of accounts
}

// readLog reads a file, and passes every version of every account in order: the last one
// counts. The arguments are valid until account returns.
//
// A commit is one group, written when the one before it is on disk. So a crash leaves
// at most a part of the last group, with sectors that still hold zeros. That part is
// cut off: it answered no call. All else is damage: anything after a bad group, a bad
// group whose sectors were all written, a file that is shorter than it says.
//
// If a disk zeroes a part of the last group, or all from some group to the end, that looks like a
// crash. Telling them apart would take a second place on the disk for each commit, with the length
// of the log. If the end or the head of a later group is left, it shows what is missing.
func readLog(r io.ReaderAt, size int64, account func(name, account []byte)) (state, error) {
	var s state
	head := make([]byte, min(size, int64(headSize)))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	nonce, err := parseHead(head)
	if err != nil {
		return s, err
	}
	s.nonce, s.sequence, s.end = nonce, 1, groupAt
	in := bufio.NewReaderSize(io.NewSectionReader(r, s.end, size-s.end), int(min(1<<20, max(size, 4096))))
	var payload []byte
	var ended bool // the snapshot
	for {
		g, ok, err := s.group(in, size, &payload)
		if err != nil {
			return s, err
		}
		if !ok {
			break
		}
		if ended != (g.kind == kindLog) || !s.take(g, payload, account) {
			return s, fmt.Errorf("%w: a group that makes no sense, at %d", ErrDamaged, s.end)
		}
		ended = ended || g.kind == kindEnd
		s.end += g.span()
		s.sequence++
	}
	switch {
	case !ended:
		return s, fmt.Errorf("%w: its snapshot is not as it was written, at %d", ErrDamaged, s.end)
	case size < s.reserved:
		return s, fmt.Errorf("%w: it has been cut: it has %d bytes of %d", ErrDamaged, size, s.reserved)
	}
	return s, s.tail(r, size)
}

// group reads the next group into payload, and reports whether it holds.
func (s *state) group(in *bufio.Reader, size int64, payload *[]byte) (g groupHead, ok bool, err error) {
	start := seed(s.nonce)
	head, err := in.Peek(groupHeadSize)
	if err != nil {
		return g, false, unlessEnd(err)
	}
	g, ok = parseGroupHead(head, start)
	switch {
	case !ok:
		return g, false, nil
	case g.sequence != s.sequence:
		return g, false, fmt.Errorf("%w: group %d where %d belongs, at %d", ErrDamaged, g.sequence, s.sequence, s.end)
	case g.span() > size-s.end:
		return g, false, fmt.Errorf("%w: it has been cut: a group at %d goes beyond its end", ErrDamaged, s.end)
	}
	_, _ = in.Discard(groupHeadSize)
	behind := int(g.span()) - groupHeadSize
	if cap(*payload) < behind {
		*payload = make([]byte, behind)
	}
	b := (*payload)[:behind]
	*payload = b
	if _, err := io.ReadFull(in, b); err != nil {
		return g, false, unlessEnd(err)
	}
	return g, g.holds(b, s.nonce), nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// take reports whether a group has the records of its kind.
func (s *state) take(g groupHead, payload []byte, account func(name, account []byte)) bool {
	rest := payload[:g.size]
	numbers := 0
	for len(rest) > 0 {
		r, after, ok := nextRecord(rest)
		rest = after
		switch {
		case !ok:
			return false
		case r.tag == tagAccount && g.kind != kindEnd:
			account(r.name, r.account)
			s.records++
		case r.tag == tagReserved && g.kind != kindSnapshot:
			s.reserved = max(s.reserved, int64(min(r.number, 1<<62)))
			numbers++
		case r.tag == tagNumber && g.kind == kindEnd && r.number == s.records:
			numbers++
		default:
			return false
		}
	}
	return g.kind != kindEnd || numbers == 2
}

// tail looks at what stands where the next group goes: zeros, a group that a crash has
// torn, or damage.
func (s *state) tail(r io.ReaderAt, size int64) error {
	last, err := s.lastByte(r, size)
	if err != nil || last < s.end {
		return err
	}
	damaged := fmt.Errorf("%w: it is not as it was written, at %d", ErrDamaged, s.end)
	if size-s.end < span(1) {
		return damaged // a group is never begun where it has no room
	}
	b := make([]byte, min(size-s.end, sector+groupHeadSize))
	if _, err := r.ReadAt(b, s.end); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	g, ok := parseGroupHead(b, seed(s.nonce))
	torn := false
	if !ok {
		// The sector of its head was not written, or no more than a part of the head. As heads are
		// aligned, they are in one sector, or in two. The bytes behind it belong to no later group,
		// see lastByte.
		first := int(sector - s.end%sector)
		torn = last < s.end+groupHeadSize || allZero(b[:min(first, len(b))]) ||
			first < groupHeadSize && allZero(b[first:min(first+sector, len(b))])
	} else if end := s.end + g.span(); last < end { // and size has room for it, see group
		torn, err = s.hole(r, end)
		if err != nil {
			return err
		}
	}
	if !torn {
		return damaged
	}
	s.torn = last + 1
	return nil
}

// lastByte returns the place of the last byte that is not zero. It fails if a group after the
// expected last one was begun: the expected one was on disk then. A whole head shows it, or
// the end of a later group, or anything after the expected group's own end: its head and later
// ones may share one lost sector.
func (s *state) lastByte(r io.ReaderAt, size int64) (last int64, err error) {
	const most = 1 << 18
	more := fmt.Errorf("%w: what stands at %d is not as it was written, and more follows", ErrDamaged, s.end)
	last = -1
	ended := size // where the group that should be there ends, if its end is there
	buf := make([]byte, min(most+groupHeadSize, max(size-s.end, 0)))
	for at := s.end; at < size; at += most {
		b := buf[:min(int64(len(buf)), size-at)]
		if _, err := r.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return last, err
		}
		n := len(bytes.TrimRight(b, "\x00"))
		if n == 0 {
			continue
		}
		last = at + int64(n) - 1
		if s.headBehind(b, at) {
			return last, more
		}
		for i := 0; i < n && i+groupEndSize <= len(b); i += align {
			to := at + int64(i+groupEndSize)
			switch later, ok := s.endAt(little.Uint64(b[i:]), to); {
			case ok && later > 0:
				return last, more
			case ok:
				ended = min(ended, to)
			}
		}
	}
	if last >= ended {
		return last, more
	}
	return last, nil
}

// headBehind reports whether b, which stands at a place of the file, has the head of a
// group, but for one at the end.
func (s *state) headBehind(b []byte, at int64) bool {
	start := seed(s.nonce)
	for off := 0; ; off++ {
		i := bytes.Index(b[off:], []byte(groupMagic))
		if i < 0 {
			return false
		}
		off += i
		if _, ok := parseGroupHead(b[off:], start); ok && at+int64(off) > s.end {
			return true
		}
	}
}

// endAt reports whether 8 bytes are the end of a group that ends so far behind the end, and
// how much later it was written than the one that belongs there. Other bytes are taken for
// one in some 2^63 / 2^14 cases at worst: a group of a MiB has room for that many others.
func (s *state) endAt(end uint64, to int64) (later uint64, ok bool) {
	later = endOf(end, s.nonce) - s.sequence
	return later, end&endBit != 0 && later < uint64((to-s.end)/span(1))
}

// hole reports whether a sector of the group at the end was not written, up to where it
// ends itself, or no more than a beginning of it.
func (s *state) hole(r io.ReaderAt, end int64) (bool, error) {
	b := make([]byte, end-s.end)
	if _, err := r.ReadAt(b, s.end); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if allZero(b[len(b)-groupEndSize:]) {
		return true, nil
	}
	for at := s.end; at < end; {
		next := min(at/sector*sector+sector, end)
		if allZero(b[at-s.end : next-s.end]) {
			return true, nil
		}
		at = next
	}
	return false, nil
}
