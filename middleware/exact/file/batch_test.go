package file_test

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
)

// together has calls written in one commit: they queue behind one that is held up, and
// that is refused, so that it writes nothing.
func together(t *testing.T, path string, clock *exacttest.Clock, keys int64, names ...string) (errs []error) {
	t.Helper()
	var hold atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	c, err := file.Open(path, file.Config{Keys: keys, Now: func() time.Time {
		if hold.Swap(false) {
			close(entered)
			<-release
		}
		return clock.Now()
	}})
	require.NoError(t, err)
	p := compile(t, hourly(5))
	take := func(key string, cost int64) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.Take(t.Context(), exact.Call{Key: key, Cost: cost, Policy: p})
			done <- err
		}()
		return done
	}
	hold.Store(true)
	before := take(names[0], 6)
	<-entered
	var waiting []chan error
	for i, key := range names {
		waiting = append(waiting, take(key, 1))
		require.Eventually(t, func() bool { return c.Waiting() == i+1 }, 5*time.Minute, time.Millisecond)
	}
	clock.Advance(time.Second) // the search for room is once a second
	close(release)
	require.NoError(t, <-before)
	for _, done := range waiting {
		errs = append(errs, <-done)
	}
	require.NoError(t, c.Close())
	return errs
}

// Of two new keys in one commit, the last place is for one.
func TestLastPlaceIsForOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	errs := together(t, path, exacttest.NewClock(), 1, "b", "c")
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], exact.ErrFull)
}

// A key that is idle, but asked for in the very commit that looks for room, stays in
// the books.
func TestKeyInUseIsNotForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	clock := exacttest.NewClock()
	require.NoError(t, together(t, path, clock, 1, "a")[0])
	clock.Advance(24 * time.Hour)
	errs := together(t, path, clock, 1, "a", "c")
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], exact.ErrFull)
	_, err := open(t, path, file.Config{Now: clock.Now}).Take(t.Context(), exact.Call{Key: "a", Cost: 1, Policy: compile(t, hourly(5))})
	require.NoError(t, err, "the books agree")
}

// edited is a file with two counts that somebody has edited with another program.
func edited(t *testing.T, edit func(accounts, whole *bolt.Bucket) error) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counts")
	clock := exacttest.NewClock()
	c, err := file.Open(path, file.Config{Now: clock.Now})
	require.NoError(t, err)
	for _, key := range []string{"a", "b"} {
		_, err := c.Take(t.Context(), exact.Call{Key: key, Cost: 1, Policy: compile(t, hourly(5))})
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return edit(tx.Bucket([]byte("accounts")), tx.Bucket([]byte("tallystick")))
	}))
	require.NoError(t, db.Close())
	c, err = file.Open(path, file.Config{Now: clock.Now})
	if err == nil {
		require.NoError(t, c.Close())
	}
	return err
}

func TestEditedFileIsRefused(t *testing.T) {
	require.NoError(t, edited(t, func(_, _ *bolt.Bucket) error { return nil }))
	name := []byte("api\x00a")
	require.ErrorIs(t, edited(t, func(accounts, _ *bolt.Bucket) error { return accounts.Delete(name) }), file.ErrDamaged, "a record is missing")
	require.ErrorIs(t, edited(t, func(accounts, _ *bolt.Bucket) error {
		record := append([]byte(nil), accounts.Get(name)...)
		return errors.Join(accounts.Delete(name), accounts.Put([]byte("api\x00c"), record))
	}), file.ErrDamaged, "a record has another's name")
	require.ErrorIs(t, edited(t, func(accounts, _ *bolt.Bucket) error {
		record := append([]byte(nil), accounts.Get(name)...)
		record[len(record)-2] ^= 1
		return accounts.Put(name, record)
	}), file.ErrDamaged, "a record is another")
	require.ErrorIs(t, edited(t, func(_, whole *bolt.Bucket) error { return whole.Delete([]byte("whole")) }), file.ErrDamaged)
	err := edited(t, func(_, whole *bolt.Bucket) error {
		record := append([]byte(nil), whole.Get([]byte("whole"))[:17]...)
		record[0] = 2
		table := crc64.MakeTable(crc64.ECMA)
		sum := crc64.Update(crc64.Checksum([]byte("whole"), table), table, record)
		return whole.Put([]byte("whole"), binary.BigEndian.AppendUint64(record, sum))
	})
	require.ErrorContains(t, err, "written in format 2, of a later version; this one knows 1")
	require.NotErrorIs(t, err, file.ErrDamaged)
}

// Who comes second to create a file does not take its name.
func TestCreateDoesNotReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, file.Create(path))
	p := compile(t, hourly(5))
	c := open(t, path, file.Config{})
	_, err := c.Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.NoError(t, file.Create(path))
	require.NoError(t, c.Close())
	v, err := open(t, path, file.Config{}).Take(t.Context(), exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, err)
	require.EqualValues(t, 3, v.Limits[0].Remaining)
}
