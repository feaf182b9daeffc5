// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/file"
)

// Pieces of a file that hold, each for itself, but not where they are.
func TestPiecesOfOthersAreRefused(t *testing.T) {
	const nonce = 77
	account := func(name string) []byte { return file.AppendAccount(nil, name, []byte("x")) }
	numbers := func(n, size uint64) []byte {
		return file.AppendNumber(file.AppendNumber(nil, 'n', n), 'r', size)
	}
	build := func(groups ...[]byte) []byte {
		b := append(file.AppendHead(nil, nonce), make([]byte, file.GroupAt-24)...)
		for _, g := range groups {
			b = append(b, g...)
		}
		return append(b, make([]byte, 4096-len(b))...)
	}
	g := func(kind byte, sequence uint64, payload []byte) []byte {
		return file.Group(kind, nonce, sequence, payload)
	}
	read := func(b []byte) (names string, err error) {
		_, err = file.ReadLog(memFileOf(b), int64(len(b)), func(name, _ []byte) { names += string(name) })
		return names, err
	}
	names, err := read(build(g('S', 1, account("a")), g('E', 2, numbers(1, 4096)), g('L', 3, account("b"))))
	require.NoError(t, err)
	require.Equal(t, "ab", names)
	for what, groups := range map[string][][]byte{
		"no snapshot":                {g('L', 1, account("a"))},
		"a snapshot without an end":  {g('S', 1, account("a"))},
		"one of other length":        {g('S', 1, account("a")), g('E', 2, numbers(2, 4096))},
		"one that is shorter":        {g('S', 1, account("a")), g('E', 2, numbers(1, 4097))},
		"two ends":                   {g('E', 1, numbers(0, 4096)), g('E', 2, numbers(0, 4096))},
		"a snapshot in the log":      {g('E', 1, numbers(0, 4096)), g('S', 2, account("a"))},
		"a group is missing":         {g('E', 1, numbers(0, 4096)), g('L', 3, account("a"))},
		"a group twice":              {g('E', 1, numbers(0, 4096)), g('L', 2, account("a")), g('L', 2, account("a"))},
		"a group of another file":    {g('E', 1, numbers(0, 4096)), file.Group('L', nonce+1, 2, account("a")), g('L', 3, account("b"))},
		"the last of another file":   {g('E', 1, numbers(0, 4096)), file.Group('L', nonce+1, 2, account("a"))},
		"a kind that is not known":   {g('E', 1, numbers(0, 4096)), g('X', 2, account("a"))},
		"a record that is not known": {g('E', 1, numbers(0, 4096)), g('L', 2, []byte("zz"))},
		"half a record":              {g('E', 1, numbers(0, 4096)), g('L', 2, account("abc")[:3])},
		"an end without numbers":     {g('E', 1, nil)},
		"an account in the end":      {g('E', 1, append(numbers(0, 4096), account("a")...))},
	} {
		_, err := read(build(groups...))
		require.ErrorIs(t, err, file.ErrDamaged, what)
	}
	// A sector that was not written, and that a group begins: the last, or not.
	sectors := build(g('E', 1, numbers(0, 4096)), g('L', 2, file.AppendAccount(nil, "a", make([]byte, 410))),
		g('L', 3, file.AppendAccount(nil, "b", make([]byte, 475))), g('L', 4, account("c")))
	names, err = read(sectors)
	require.NoError(t, err)
	require.Equal(t, "abc", names)
	require.Equal(t, "tyGL", string(sectors[512:516]))
	clear(sectors[512:1024])
	_, err = read(sectors)
	require.ErrorIs(t, err, file.ErrDamaged, "more follows")
	require.Equal(t, "tyGL", string(sectors[1024:1028]))
	clear(sectors[1024+len(g('L', 4, account("c")))-8:])
	_, err = read(sectors)
	require.ErrorIs(t, err, file.ErrDamaged, "more was begun")
	clear(sectors[1024:])
	sectors[1030] = 7
	names, err = read(sectors)
	require.NoError(t, err)
	require.Equal(t, "a", names)

	// As many groups as can begin in a sector, and the end of the last behind it.
	groups := [][]byte{g('E', 1, numbers(0, 4096)), g('L', 2, file.AppendAccount(nil, "a", make([]byte, 410)))}
	for n := range uint64(13) {
		groups = append(groups, g('L', 3+n, file.AppendNumber(nil, 'r', 4096)))
	}
	b := build(groups...)
	_, err = read(b)
	require.NoError(t, err)
	clear(b[512:1024])
	require.Equal(t, groups[14][32:], b[1024:1032])
	require.Equal(t, make([]byte, 3064), b[1032:])
	_, err = read(b)
	require.ErrorIs(t, err, file.ErrDamaged, "the end of one of them is left")
	clear(b[1024:])
	names, err = read(b)
	require.NoError(t, err, "nothing is left")
	require.Equal(t, "a", names)

	b = build(g('E', 1, numbers(0, 4096)))
	b = append(file.AppendHead(nil, nonce), b[24:]...)
	b[11] = 3
	_, err = read(b)
	require.ErrorIs(t, err, file.ErrDamaged, "a version that was damaged")
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[:20], crc32.MakeTable(crc32.Castagnoli)))
	_, err = read(b)
	require.ErrorContains(t, err, "written in layout 3")
	require.NotErrorIs(t, err, file.ErrDamaged)

	// An account that only a later version can read is no damage, and not fresh.
	disk := newMemDisk()
	disk.put(memPath, build(g('S', 1, file.AppendAccount(nil, "a", []byte{99})), g('E', 2, numbers(1, 4096))))
	_, err = file.OpenOn(disk, memPath, 1<<30, file.Config{})
	require.ErrorContains(t, err, "of a later version")
	require.NotErrorIs(t, err, file.ErrDamaged)
}
