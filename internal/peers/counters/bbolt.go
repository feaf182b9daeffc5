// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"encoding/binary"
	"hash/crc64"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tallystick/tallystick/middleware/exact"
)

var (
	bucketCounts = []byte("counts")
	bucketWhole  = []byte("whole")
	keyWhole     = []byte("whole")
)

func openBbolt(dir string, options *bolt.Options) (*bolt.DB, error) {
	db, err := bolt.Open(filepath.Join(dir, "counts"), 0o600, options)
	if err != nil {
		return nil, err
	}
	return db, db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketCounts, bucketWhole} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
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

func openBboltUpdate(dir string) (*Opened, error) {
	return openBboltPlain(dir, (*bolt.DB).Update)
}

func openBboltBatch(dir string) (*Opened, error) {
	return openBboltPlain(dir, (*bolt.DB).Batch)
}

func openBboltPlain(dir string, do func(*bolt.DB, func(*bolt.Tx) error) error) (*Opened, error) {
	db, err := openBbolt(dir, nil)
	if err != nil {
		return nil, err
	}
	return &Opened{Close: db.Close, Take: func(key string) (passed bool, err error) {
		err = do(db, func(tx *bolt.Tx) (err error) {
			passed, err = count(tx, key)
			return err
		})
		return passed, err
	}}, nil
}

// openBboltGrouped is what exact/file was before it had a log of its own: accounts with
// checksums, and with each commit the number of all and the sum of their checksums. It
// leaves out what costs more: it checks nothing when it is opened, keeps no IDs, and
// never looks for accounts to forget.
func openBboltGrouped(dir string) (*Opened, error) {
	p, err := compile()
	if err != nil {
		return nil, err
	}
	db, err := openBbolt(dir, &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return nil, err
	}
	g := &group{commit: func(jobs []*job) error {
		return db.Update(func(tx *bolt.Tx) error { return commitAccounts(tx, p, jobs) })
	}}
	return &Opened{Close: db.Close, Take: g.take}, nil
}

// A boltAccount is one that a commit changes.
type boltAccount struct {
	account exact.Account
	sum     uint64 // of what is stored; 0: nothing is
}

func commitAccounts(tx *bolt.Tx, p *exact.Policy, jobs []*job) error {
	now := time.Now()
	counts, whole := tx.Bucket(bucketCounts), make([]byte, 16)
	copy(whole, tx.Bucket(bucketWhole).Get(keyWhole))
	accounts := make(map[string]*boltAccount, len(jobs))
	for _, j := range jobs {
		name := p.AccountName(j.key)
		a := accounts[name]
		if a == nil {
			a = new(boltAccount)
			if b := counts.Get([]byte(name)); b != nil {
				if err := a.account.UnmarshalBinary(b[8:]); err != nil {
					return err
				}
				a.sum = binary.BigEndian.Uint64(b)
			}
			accounts[name] = a
		}
		j.passed = a.account.Take(now, &exact.Call{Key: j.key, Cost: 1, Policy: p}).Admitted
	}
	number, sum := binary.BigEndian.Uint64(whole), binary.BigEndian.Uint64(whole[8:])
	for name, a := range accounts {
		b, err := a.account.AppendBinary(make([]byte, 8, 128))
		if err != nil {
			return err
		}
		now := crc64.Update(crc64.Checksum([]byte(name), checksums), checksums, b[8:])
		binary.BigEndian.PutUint64(b, now)
		if a.sum == 0 {
			number++
		}
		sum += now - a.sum
		if err := counts.Put([]byte(name), b); err != nil {
			return err
		}
	}
	binary.BigEndian.PutUint64(whole, number)
	binary.BigEndian.PutUint64(whole[8:], sum)
	return tx.Bucket(bucketWhole).Put(keyWhole, whole)
}

var checksums = crc64.MakeTable(crc64.ECMA)
