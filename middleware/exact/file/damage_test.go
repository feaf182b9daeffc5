// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestWhatIsNoCounterIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "short": "x", "zeros": string(make([]byte, 100_000)), "text": "tallystick, the manual, chapter one"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := file.Open(path, file.Config{})
		require.ErrorIs(t, err, file.ErrDamaged, name)
		require.ErrorContains(t, err, "restore a copy, or remove it")
		kept := kit.Must(os.ReadFile(path))(t)
		require.Equal(t, content, string(kept), "it is left as it was")
	}
	_, err := file.Open(filepath.Join(dir, "no", "such", "directory"), file.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "make the folder "+filepath.Join(dir, "no", "such")+" first")
	_, err = file.Open(filepath.Join(dir, "none"), file.Config{Keys: -1})
	require.EqualError(t, err, "Keys: must be at least 1, or 0 for 1048576, not -1")
	_, err = os.Stat(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// accountsOf reads all accounts of a file.
func accountsOf(t testing.TB, b []byte) map[string]string {
	t.Helper()
	_, all, err := read(b)
	require.NoError(t, err)
	return all
}

// try opens what became of a file, and reports whether it was refused: else it counts
// what it did.
func (f *countedFile) try(t *testing.T, b []byte) (refused bool, accounts map[string]string) {
	t.Helper()
	disk := newMemDisk()
	disk.put(memPath, b)
	c, err := file.OpenOn(disk, memPath, 1<<30, file.Config{Now: exacttest.NewClock().Now})
	if err != nil {
		require.ErrorIs(t, err, file.ErrDamaged)
		require.Equal(t, b, disk.bytes(memPath), "it is left as it was")
		return true, nil
	}
	for name := range accountsOf(t, b) {
		if key, ok := f.names[name]; ok {
			require.False(t, exactkit.Take(t, c, exact.Call{Key: key, Cost: 1, Policy: f.once}).Admitted, "a fresh quota for %s", key)
		}
	}
	require.NoError(t, c.Close())
	return false, accountsOf(t, disk.bytes(memPath))
}

// TestFlippedBits flips each bit of a file that was written, one at a time: it is refused,
// always, wherever it is.
func TestFlippedBits(t *testing.T) {
	f := lay(t, layout{keys: 60})
	step := int64(11) // bits: most bytes, and each bit of some
	if kit.Long() {
		step = 1
	}
	flip := append([]byte(nil), f.bytes...)
	for bit := int64(0); bit < 8*f.place.End; bit += step {
		if at := bit / 8; at >= 24 && at < file.GroupAt {
			continue
		}
		flip[bit/8] ^= 1 << (bit % 8)
		_, _, err := read(flip)
		if bit/8 == 11 {
			require.Error(t, err) // the version
		} else {
			require.ErrorIs(t, err, file.ErrDamaged, "bit %d of byte %d", bit%8, bit/8)
		}
		flip[bit/8] ^= 1 << (bit % 8)
	}
	// What stands in the zeros behind it, a crash may have left: nothing is missing then.
	for at := f.place.End; at < int64(len(flip)); at += 511 {
		flip[at] ^= 0x40
		place, _, err := read(flip)
		if err == nil {
			require.Equal(t, f.place.End, place.End, "byte %d", at)
			require.Equal(t, at+1, place.Torn, "byte %d", at)
		} else {
			require.ErrorIs(t, err, file.ErrDamaged, "byte %d", at)
		}
		flip[at] = 0
	}
}

// TestDamagedPlaces damages a file in one place after the other, by more than a bit: it is
// refused, or opens with what was counted. What zeros do is known for each place.
func TestDamagedPlaces(t *testing.T) {
	seeds := 4
	if kit.Long() {
		seeds = 40
	}
	refused, places := 0, 0
	for seed := range seeds {
		f := lay(t, layout{seed: uint64(seed), keys: 400, few: seed % 4, at: seed * 8 % 512})
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		for range 40 {
			b := append([]byte(nil), f.bytes...)
			at := rng.IntN(int(f.place.End) + 2048)
			begin := at &^ 511
			want := f.want
			switch rng.IntN(4) {
			case 0:
				b[at] ^= byte(1 + rng.IntN(255))
			case 1: // a sector of something else
				for i := begin; i < begin+512; i++ {
					b[i] = byte(rng.IntN(2) * rng.IntN(256))
				}
			case 2: // that was not written
				clear(b[begin : begin+512])
				want = f.without(begin, begin+512)
			case 3: // that was written elsewhere
				copy(b[begin:begin+512], f.bytes[rng.IntN(int(f.place.End))&^511:])
			}
			no, accounts := f.try(t, b)
			places++
			if no {
				refused++
				continue
			}
			require.Equal(t, want, accounts, "seed %d at %d", seed, at)
		}
	}
	t.Logf("%d refused of %d", refused, places)
	require.Greater(t, refused, places/2)
}

// TestCutFile cuts a file: it is refused, wherever that was. One that is longer than it says
// opens.
func TestCutFile(t *testing.T) {
	f := lay(t, layout{keys: 400})
	places := 120
	if kit.Long() {
		places = 500
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range places {
		at := rng.IntN(len(f.bytes))
		if n%4 == 0 {
			at &^= 4095
		}
		no, _ := f.try(t, f.bytes[:at])
		require.True(t, no, "cut at %d of %d", at, len(f.bytes))
	}
	no, accounts := f.try(t, append(append([]byte(nil), f.bytes...), make([]byte, 4096)...))
	require.False(t, no)
	require.Equal(t, f.want, accounts)
}

// A file that is cut where one of the spans that it was made longer by has ended is refused too.
func TestFileCutWhereItOnceEnded(t *testing.T) {
	b := newBooks(t, 1<<30)
	disk, c := b.disk, b.c
	ends := map[int]bool{}
	for n := range 8000 {
		require.NoError(t, b.take(strconv.Itoa(n), ""))
		disk.mu.Lock()
		ends[len(disk.names[memPath].seen)] = true
		disk.mu.Unlock()
	}
	require.NoError(t, c.Close())
	whole := disk.bytes(memPath)
	require.Greater(t, len(ends), 4)
	for end := range ends {
		_, err := file.ReadLog(memFileOf(whole[:end]), int64(end), func(_, _ []byte) {})
		if end == len(whole) {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, file.ErrDamaged, "cut at %d", end)
	}
}

// TestTornGroup leaves the last group as a write that stopped has: what was counted before it is there, and what is
// counted after it stays. TestTornGroupBehindZeros leaves every other part of it.
func TestTornGroup(t *testing.T) {
	f := lay(t, layout{keys: 60})
	for at := f.last; at < f.place.End-8; at += 7 { // a write that stopped
		b := append([]byte(nil), f.bytes...)
		clear(b[at:])
		no, accounts := f.try(t, b)
		require.False(t, no, "%d bytes of it", at-f.last)
		require.Equal(t, f.but, accounts)
	}
	// What comes after a torn group takes its place, and is read again.
	b := append([]byte(nil), f.bytes...)
	clear(b[f.place.End-512:])
	disk, clock := newMemDisk(), exacttest.NewClock()
	disk.put(memPath, b)
	for n := range 3 {
		c := openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
		require.EqualValues(t, 9-n, exactkit.Take(t, c, exact.Call{Key: "after", Cost: 1, Policy: exactkit.PerHour(t, 10)}).Limits[0].Remaining)
		require.NoError(t, c.Close())
	}
}

// A disk that does not give back what it has is not taken for a damaged file.
func TestDiskThatCannotBeRead(t *testing.T) {
	f := lay(t, layout{keys: 60})
	disk := newMemDisk()
	disk.put(memPath, f.bytes)
	failed := errors.New("input/output error")
	for n := range 4 {
		reads := 0
		disk.fail = func(op, _ string) error {
			if op == "read" {
				if reads++; reads > n {
					return failed
				}
			}
			return nil
		}
		_, err := file.OpenOn(disk, memPath, 1<<30, file.Config{})
		if reads <= n {
			break
		}
		require.ErrorIs(t, err, failed)
		require.NotErrorIs(t, err, file.ErrDamaged)
	}
}

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
	names = kit.Must(read(sectors))(t)
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
	names = kit.Must(read(sectors))(t)
	require.Equal(t, "a", names)

	// As many groups as can begin in a sector, and the end of the last behind it.
	groups := [][]byte{g('E', 1, numbers(0, 4096)), g('L', 2, file.AppendAccount(nil, "a", make([]byte, 410)))}
	for n := range uint64(13) {
		groups = append(groups, g('L', 3+n, file.AppendNumber(nil, 'r', 4096)))
	}
	b := build(groups...)
	kit.Must(read(b))(t)
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
	whole := kit.Must(os.ReadFile("testdata/layout-2"))(f)
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
