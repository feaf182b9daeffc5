package counters_test

import (
	"database/sql"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	_ "modernc.org/sqlite"
)

const quota = 1<<31 - 1

var bucket = []byte("counts")

func openBbolt(b *testing.B) *bolt.DB {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "counts"), 0o600, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	require.NoError(b, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}))
	return db
}

// count is the whole of the work: a window's number and a count, for a key.
func count(tx *bolt.Tx, key string) (bool, error) {
	counts := tx.Bucket(bucket)
	window, n := uint64(time.Now().Unix()/3600), uint64(0)
	if v := counts.Get([]byte(key)); len(v) == 16 && binary.BigEndian.Uint64(v) == window {
		n = binary.BigEndian.Uint64(v[8:])
	}
	if n >= quota {
		return false, nil
	}
	v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, window), n+1)
	return true, counts.Put([]byte(key), v)
}

func openBboltUpdate(b *testing.B) take {
	db := openBbolt(b)
	return func(key string) (passed bool, err error) {
		err = db.Update(func(tx *bolt.Tx) (err error) {
			passed, err = count(tx, key)
			return err
		})
		return passed, err
	}
}

func openBboltBatch(b *testing.B) take {
	db := openBbolt(b)
	return func(key string) (passed bool, err error) {
		err = db.Batch(func(tx *bolt.Tx) (err error) {
			passed, err = count(tx, key)
			return err
		})
		return passed, err
	}
}

// openSQLite is WAL with synchronous=FULL: each commit is on disk, as in the others.
func openSQLite(b *testing.B) take {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "counts")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	require.NoError(b, err)
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only wait for its lock
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	_, err = db.Exec(`CREATE TABLE counts (key TEXT PRIMARY KEY, win INTEGER NOT NULL, n INTEGER NOT NULL) WITHOUT ROWID`)
	require.NoError(b, err)
	upsert, err := db.Prepare(`INSERT INTO counts VALUES (?1, ?2, 1) ON CONFLICT (key) DO UPDATE
		SET n = CASE WHEN win = ?2 THEN n + 1 ELSE 1 END, win = ?2 WHERE win <> ?2 OR n < ?3`)
	require.NoError(b, err)
	return func(key string) (bool, error) {
		r, err := upsert.Exec(key, time.Now().Unix()/3600, quota)
		if err != nil {
			return false, err
		}
		n, err := r.RowsAffected()
		return n == 1, err
	}
}
