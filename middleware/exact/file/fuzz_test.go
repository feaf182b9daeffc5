// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/file"
)

// read reads a file, and returns its accounts.
func read(b []byte) (file.Place, map[string]string, error) {
	all := map[string]string{}
	place, err := file.ReadLog(memFileOf(b), int64(len(b)), func(name, account []byte) { all[string(name)] = string(account) })
	return place, all, err
}

// FuzzReadLog reads anything: it is refused, or says where more goes; and what is mended
// and written on is read again, with what was there before.
func FuzzReadLog(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		place, before, err := read(b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, place.End, int64(len(b)))
		require.LessOrEqual(t, place.Reserved, int64(len(b)))
		mended := append([]byte(nil), b...)
		clear(mended[place.End:])
		again, after, err := read(mended)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, place.End, again.End)
		require.Zero(t, again.Torn)
	})
}

// FuzzDamagedLog writes something over a part of a file, or moves a part: it is refused,
// or has what was counted, up to where a crash may have left what it has now: the last
// group, torn, or sectors of zeros, as a disk leaves them that says it has written what it
// has not.
func FuzzDamagedLog(f *testing.F) {
	whole, err := os.ReadFile("testdata/layout-2")
	require.NoError(f, err)
	end, want, err := read(whole)
	require.NoError(f, err)
	upTo := map[int64]map[string]string{end.End: want} // the accounts of all groups before
	last := int64(0)
	for at := end.End - 8; at > 0; at -= 8 {
		cut := append([]byte(nil), whole...)
		clear(cut[at:])
		if place, accounts, err := read(cut); err == nil && place.End == at && place.Torn == 0 {
			upTo[at], last = accounts, max(last, at)
		}
	}
	require.Len(f, upTo, 4)
	f.Add(uint32(0), uint32(0), uint32(0), []byte{0})
	f.Add(uint32(last), uint32(0), uint32(0), make([]byte, 512))
	f.Add(uint32(last), uint32(24), uint32(512), []byte{})
	f.Add(uint32(last+24), uint32(0), uint32(0), []byte("\xff"))
	f.Add(uint32(last-40), uint32(0), uint32(0), make([]byte, 700))
	f.Fuzz(func(t *testing.T, to, from, n uint32, over []byte) {
		b := append([]byte(nil), whole...)
		at := int(to) % len(b)
		copy(b[at:], b[min(int(from), len(b)):min(int(from)+int(n%4096), len(b))])
		copy(b[at:], over)
		place, accounts, err := read(b)
		if err != nil {
			if at > 11 || at+max(len(over), int(n%4096)) < 11 { // else it may be of another version
				require.ErrorIs(t, err, file.ErrDamaged)
			}
			return
		}
		require.Contains(t, upTo, place.End)
		require.Equal(t, upTo[place.End], accounts)
		if place.End < last {
			sector := b[place.End : place.End/512*512+512]
			require.Equal(t, make([]byte, len(sector)), sector)
			require.NotEqual(t, whole[end.End-8:end.End], b[end.End-8:end.End], "the last group has ended there")
		}
	})
}
