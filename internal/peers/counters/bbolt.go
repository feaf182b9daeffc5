// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"encoding/binary"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

var bucketCounts = []byte("counts")

// openBbolt writes by [bolt.DB.Batch], with a delay of about one write: the 10 ms that it waits for
// company as it comes would be all that a row shows.
func openBbolt(dir string) (*Opened, error) {
	db, err := bolt.Open(filepath.Join(dir, "counts"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = 200 * time.Microsecond
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketCounts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Opened{Close: db.Close, Take: func(key string) (passed bool, err error) {
		err = db.Batch(func(tx *bolt.Tx) (err error) {
			passed, err = count(tx, key)
			return err
		})
		return passed, err
	}}, nil
}

// count is the whole of the work: a window's number and a count, for a key.
func count(tx *bolt.Tx, key string) (bool, error) {
	counts := tx.Bucket(bucketCounts)
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
