// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A layout says how the groups of a file lie in its sectors. A counter writes together
// what comes together, so a file that it wrote has another layout each time, and the rare
// ones are tested once in a thousand runs. Here they are built.
type layout struct {
	seed uint64
	keys int // that have spent all that they had
	few  int // of them in groups of one account, before the last group
	at   int // where the first of those begins in its sector; a multiple of 8
}

// A countedFile is to be damaged: a snapshot and a log, of keys without quota left.
type countedFile struct {
	bytes []byte
	layout
	nonce  uint64
	place  file.Place
	groups []int64             // where each begins
	before []map[string]string // the accounts before each group
	logged int                 // the first group of the log
	last   int64               // where the last group begins
	want   map[string]string   // its accounts
	but    map[string]string   // those before the last group
	once   *exact.Policy       // of those keys
	names  map[string]string   // keys by the names of their accounts
}

// large is an account of some sectors, before and after its last call.
var large = sync.OnceValue(func() (before [2]string) {
	p, err := exact.Compile("api", every)
	if err != nil {
		panic(err)
	}
	clock, a := exacttest.NewClock(), new(engine.Account)
	for range 300 {
		clock.Advance(time.Second)
		a.Take(clock.Now(), &exact.Call{Key: "last", Cost: 1, Policy: p})
		b, err := a.AppendBinary(nil)
		if err != nil {
			panic(err)
		}
		before = [2]string{before[1], string(b)}
	}
	return before
})

func lay(t testing.TB, l layout) *countedFile {
	t.Helper()
	once := exactkit.PerHour(t, 1)
	f := &countedFile{layout: l, once: once, want: map[string]string{}, names: map[string]string{}}
	rng := rand.New(rand.NewPCG(l.seed, 1))
	f.nonce = rng.Uint64()
	f.bytes = append(file.AppendHead(nil, f.nonce), make([]byte, file.GroupAt-24)...)
	group := func(kind byte, payload []byte) {
		f.groups = append(f.groups, int64(len(f.bytes)))
		f.before = append(f.before, f.but)
		f.bytes = append(f.bytes, file.Group(kind, f.nonce, uint64(len(f.groups)), payload)...)
		f.but = maps.Clone(f.want)
	}
	now := exacttest.NewClock().Now()
	spend := func(payload []byte, key string) []byte {
		var a engine.Account
		require.True(t, a.Take(now, &exact.Call{Key: key, Cost: 1, Policy: once}).Admitted)
		b := exactkit.Bytes(t, &a)
		name := once.AccountName(key)
		f.names[name], f.want[name] = key, string(b)
		return file.AppendAccount(payload, name, b)
	}
	keys := 0
	some := func(n int) (payload []byte) {
		for range n {
			payload = spend(payload, fmt.Sprint(keys))
			keys++
		}
		return payload
	}
	padded := func() (payload []byte) { // so that the next group begins where it is to
		for n := 0; (len(f.bytes)+len(file.Group('L', f.nonce, 1, payload)))%512 != l.at; n++ {
			payload = spend(payload, fmt.Sprint("p", n))
		}
		return payload
	}
	name := once.AccountName("last")
	last := func(account string) []byte {
		f.want[name] = account
		return file.AppendAccount(nil, name, []byte(account))
	}
	group('S', last(large()[0]))
	for keys < l.keys/2 {
		group('S', some(min(1+rng.IntN(64), l.keys/2-keys)))
	}
	size := uint64(24<<10+64*l.keys) / 4096 * 4096
	group('E', file.AppendNumber(file.AppendNumber(nil, 'n', uint64(keys+1)), 'r', size))
	f.logged = len(f.groups)
	for keys < l.keys-l.few {
		group('L', some(min(1+rng.IntN(16), l.keys-l.few-keys)))
	}
	group('L', padded())
	for range l.few {
		group('L', some(1))
	}
	group('L', last(large()[1]))
	f.last, f.but = f.groups[len(f.groups)-1], f.before[len(f.before)-1]
	f.bytes = append(f.bytes, make([]byte, int(size)-len(f.bytes))...)

	place, accounts, err := read(f.bytes)
	require.NoError(t, err)
	require.Equal(t, f.want, accounts)
	f.place = place
	require.Greater(t, f.place.End-f.last, int64(1024), "the last group has some sectors")
	require.NotEqual(t, f.want, f.but)
	return f
}

// TestCounterWritesThisLayout holds what is built here to what a counter writes.
func TestCounterWritesThisLayout(t *testing.T) {
	disk, clock := newMemDisk(), exacttest.NewClock()
	c := openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
	p := exactkit.PerHour(t, 5)
	var want []byte
	for n := range 40 {
		require.True(t, exactkit.Take(t, c, exact.Call{Key: strings.Repeat("k", 1+n), Cost: 1, Policy: p}).Admitted)
		if want == nil { // the head, and the end of a snapshot of nothing
			b := disk.bytes(memPath)
			nonce := binary.LittleEndian.Uint64(b[12:])
			size := uint64(len(b))
			want = append(file.AppendHead(nil, nonce), file.Group('E', nonce, 1, file.AppendNumber(file.AppendNumber(nil, 'n', 0), 'r', size))...)
		}
		nonce := binary.LittleEndian.Uint64(want[12:])
		var a engine.Account
		a.Take(clock.Now(), &exact.Call{Key: strings.Repeat("k", 1+n), Cost: 1, Policy: p})
		want = append(want, file.Group('L', nonce, uint64(n+2), file.AppendAccount(nil, p.AccountName(strings.Repeat("k", 1+n)), exactkit.Bytes(t, &a)))...)
	}
	require.NoError(t, c.Close())
	b := disk.bytes(memPath)
	require.Equal(t, append(want, make([]byte, len(b)-len(want))...), b)
}

// TestKeptFileIsRead opens a file that was kept: files that are out there are read by the version that comes. It is what
// makes it.
func TestKeptFileIsRead(t *testing.T) {
	const nonce = 77
	clock := exacttest.NewClock()
	p := exactkit.Compile(t, every...)
	spent := func(cost int64) []byte {
		var a engine.Account
		require.True(t, a.Take(clock.Now(), &exact.Call{Key: "k", Cost: cost, Policy: p}).Admitted)
		return exactkit.Bytes(t, &a)
	}
	reserved := func(b []byte) []byte { return file.AppendNumber(b, 'r', 4096) }
	account := func(key string, cost int64) []byte {
		return file.AppendAccount(nil, p.AccountName(key), spent(cost))
	}
	b := file.AppendHead(nil, nonce)
	for i, g := range []struct {
		kind    byte
		payload []byte
	}{
		{'S', append(account("a", 1), account("b", 2)...)},
		{'E', reserved(file.AppendNumber(nil, 'n', 2))},
		{'L', account("a", 3)},
		{'L', reserved(account("c", 4))},
		{'L', file.AppendAccount(nil, p.AccountName("last"), []byte(large()[1]))},
	} {
		b = append(b, file.Group(g.kind, nonce, uint64(i+1), g.payload)...)
	}
	b = append(b, make([]byte, 4096-len(b))...)
	kept := kit.Must(os.ReadFile("testdata/layout-2"))(t)
	require.Equal(t, b, kept)

	disk := newMemDisk()
	disk.put(memPath, kept)
	used := map[string]int64{"a": 3, "b": 2, "c": 4, "d": 0}
	for range 3 {
		c := openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
		for key := range used {
			v := exactkit.Take(t, c, exact.Call{Key: key, Cost: 1, Policy: p})
			used[key]++
			require.Equal(t, 5000-used[key], v.Limits[0].Remaining, key)
		}
		require.NoError(t, c.Close())
	}
	require.Equal(t, []string{memPath}, disk.left())
}

// A file of another version is refused, and is no damage.
func TestOtherVersionsAreRefusedByName(t *testing.T) {
	for _, version := range []byte{0, 1, 3, 255} {
		disk := newMemDisk()
		b := file.AppendHeadOf(nil, version, 77)
		disk.put(memPath, b)
		_, err := file.OpenOn(disk, memPath, 1<<30, file.Config{})
		require.ErrorContains(t, err, fmt.Sprintf("written in layout %d, and this version of Tallystick reads 2; open it with the one that wrote it", version))
		require.NotErrorIs(t, err, file.ErrDamaged)
		require.Equal(t, b, disk.bytes(memPath), "it is left as it was")
	}
}

// A file that could never be made smaller is refused when it is opened: where nothing may be made
// beside it, removed, or where it is mounted by itself. That a disk is full, or knows no links, is no
// such thing.
func TestFileThatCannotBeReplacedIsRefused(t *testing.T) {
	for _, tc := range []struct {
		op      string
		err     error
		refused bool
	}{
		{"create", syscall.EACCES, true},
		{"create", syscall.EROFS, true},
		{"remove", syscall.EPERM, true},
		{"name", syscall.EXDEV, true},
		{"create", syscall.ENOSPC, false},
		{"create", syscall.EDQUOT, false},
		{"name", syscall.EPERM, false},
		{"name", syscall.ENOTSUP, false},
		{"name", syscall.ENOSPC, false},
	} {
		t.Run(fmt.Sprint(tc.op, " ", tc.err), func(t *testing.T) {
			disk := newMemDisk()
			c := openOn(t, disk, 1<<30, file.Config{})
			require.NoError(t, c.Close())
			disk.fail = func(op, path string) error {
				if op == tc.op && strings.HasSuffix(path, ".next") {
					return tc.err
				}
				return nil
			}
			c, err := file.OpenOn(disk, memPath, 1<<30, file.Config{})
			if disk.fail = nil; tc.refused {
				require.ErrorIs(t, err, file.ErrFixed)
				require.ErrorIs(t, err, tc.err)
				require.ErrorContains(t, err, "give it a directory of its own")
				c, err = file.OpenOn(disk, memPath, 1<<30, file.Config{})
			}
			require.NoError(t, err)
			require.NoError(t, c.Close())
			require.Equal(t, []string{memPath}, disk.left())
		})
	}
}

// mountedBy is set in the process that TestFileThatIsMountedByItself starts in a mount namespace.
const mountedBy = "TALLYSTICK_TEST_MOUNTED"

// A real mount of the file by itself, as docker run -v counts.db:/counts.db makes.
func TestFileThatIsMountedByItself(t *testing.T) {
	if path := os.Getenv(mountedBy); path != "" {
		_, err := file.Open(path, file.Config{})
		require.ErrorIs(t, err, file.ErrFixed)
		return
	}
	dir := t.TempDir()
	there, mounted := filepath.Join(dir, "there"), filepath.Join(dir, "mounted")
	require.NoError(t, file.Create(there))
	require.NoError(t, os.WriteFile(mounted, nil, 0o600))
	mount := `mount --bind "$1" "$2" || exit 77; exec "$3" -test.run '^TestFileThatIsMountedByItself$'`
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", there, mounted, os.Args[0])
	cmd.Env = append(os.Environ(), mountedBy+"="+mounted)
	said, err := cmd.CombinedOutput()
	if code := cmd.ProcessState; code == nil || code.ExitCode() == 77 || strings.Contains(string(said), "unshare") {
		kit.Unable(t, "no file can be mounted here: %s", said)
	}
	require.NoError(t, err, string(said))
	left := kit.Must(os.ReadDir(dir))(t)
	require.Len(t, left, 2)
}
