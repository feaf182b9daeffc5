// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/file"
)

// without returns what a file counts when zeros stand in a part of it, or nil if it is to be
// refused. Zeros cannot be told from what was never written: where they take all that is
// from a group to the end, or a part of the last group, the file opens without that. That is
// all that they can do.
func (f *countedFile) without(from, to int) map[string]string {
	end := func(i int) int64 {
		if i+1 < len(f.groups) {
			return f.groups[i+1]
		}
		return f.place.End
	}
	first, last := 0, len(f.groups)-1
	for first < last && end(first) <= int64(from) {
		first++
	}
	switch {
	case int64(from) >= f.place.End:
		return f.want
	case first >= f.logged && (first == last || int64(to) >= f.place.End):
		return f.before[first]
	}
	return nil
}

// TestZeros writes zeros over what is on disk, as one that has lost a sector or a page, or
// has never written it, though it said so. No group is missing from what opens, if a later
// one is there or was begun: wherever groups lie in sectors.
func TestZeros(t *testing.T) {
	for at := 0; at < 512; at += 8 {
		f := lay(t, layout{seed: uint64(at), keys: 40, few: at / 8 % 4, at: at})
		check := func(from, to int) {
			b := append([]byte(nil), f.bytes...)
			clear(b[from:to])
			want := f.without(from, to)
			_, accounts, err := read(b)
			if want == nil {
				require.ErrorIs(t, err, file.ErrDamaged, "zeros from %d to %d; groups at %d", from, to, f.groups)
				return
			}
			require.NoError(t, err, "zeros from %d to %d; groups at %d", from, to, f.groups)
			require.Equal(t, want, accounts, "zeros from %d to %d; groups at %d", from, to, f.groups)
		}
		for _, size := range []int{512, 4096} {
			for from := 0; from < int(f.place.End); from += size {
				check(from, from+size)
			}
			for _, from := range f.groups { // as the sector was before that group
				check(int(from), (int(from)+size)/size*size)
			}
		}
	}
}

// TestTornGroupBehindZeros begins a group behind the last; a crash leaves some of its
// sectors. All that was on disk before is there, whichever they are; and it is refused if a
// sector of that is lost, for what was begun behind it shows that it was there.
func TestTornGroupBehindZeros(t *testing.T) {
	for at := 0; at < 512; at += 8 {
		f := lay(t, layout{seed: uint64(at), keys: 20, few: at / 8 % 4, at: at})
		torn := file.Group('L', f.nonce, uint64(len(f.groups)+1), file.AppendAccount(nil, "torn", bytes.Repeat([]byte{0x85}, 1200)))
		end := int(f.place.End)
		sectors := (end+len(torn)-1)/512 - end/512 + 1
		for some := range 1 << sectors {
			b := append([]byte(nil), f.bytes...)
			for i := range sectors {
				if from, to := max(end, (end/512+i)*512), min((end/512+i+1)*512, end+len(torn)); some>>i&1 == 1 {
					copy(b[from:to], torn[from-end:])
				}
			}
			place, accounts, err := read(b)
			require.NoError(t, err, "sectors %b of a group at %d", some, end)
			if some == 1<<sectors-1 {
				require.EqualValues(t, end+len(torn), place.End)
				delete(accounts, "torn")
			} else {
				require.EqualValues(t, end, place.End)
			}
			require.Equal(t, f.want, accounts)
			if some == 0 {
				continue
			}
			for from := int(f.groups[len(f.groups)-2-f.few]) / 512 * 512; from+512 <= end; from += 512 {
				lost := append([]byte(nil), b...)
				clear(lost[from : from+512])
				_, _, err := read(lost)
				require.ErrorIs(t, err, file.ErrDamaged, "sector %d lost before sectors %b of a group at %d", from/512, some, end)
			}
		}
	}
}
