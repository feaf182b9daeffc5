package file

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"

	bolt "go.etcd.io/bbolt"

	"github.com/tallystick/tallystick/middleware/exact"
)

// The file has two buckets: one record for each account, and one about the whole.
// Each account is stored with a checksum of its name and itself, and the sum of all
// checksums and their number are stored with every commit: bbolt checks the page that
// begins a tree, but not that the rest of it is as it was written, and an account that
// is lost would be a fresh quota.
var (
	bucketAccounts = []byte("accounts")
	bucketWhole    = []byte("tallystick")
	keyWhole       = []byte("whole")
)

// format is that of this package's records.
const format = 1

var table = crc64.MakeTable(crc64.ECMA)

func checksum(name, account []byte) uint64 {
	return crc64.Update(crc64.Checksum(name, table), table, account)
}

// load reads an account, and its checksum; that of none is 0.
func load(accounts *bolt.Bucket, name string) (exact.Account, uint64, error) {
	b := accounts.Get([]byte(name))
	if b == nil {
		return exact.Account{}, 0, nil
	}
	return decode([]byte(name), b)
}

func decode(name, b []byte) (a exact.Account, sum uint64, err error) {
	if len(b) < 8 {
		return a, 0, fmt.Errorf("%w: a record of %d bytes", ErrDamaged, len(b))
	}
	sum = binary.BigEndian.Uint64(b)
	if checksum(name, b[8:]) != sum {
		return a, 0, fmt.Errorf("%w: a record does not match its checksum", ErrDamaged)
	}
	if err := a.UnmarshalBinary(b[8:]); err != nil {
		return a, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return a, sum, nil
}

// store writes an account.
func store(accounts *bolt.Bucket, name string, e *entry, w *whole) error {
	b, err := e.account.AppendBinary(make([]byte, 8, 128))
	if err != nil {
		return err
	}
	sum := checksum([]byte(name), b[8:])
	binary.BigEndian.PutUint64(b, sum)
	w.replace(e.sum, sum)
	return accounts.Put([]byte(name), b)
}

// remove forgets an account.
func remove(accounts *bolt.Bucket, name []byte, w *whole) error {
	_, sum, err := load(accounts, string(name))
	if err != nil || sum == 0 {
		return err
	}
	w.replace(sum, 0)
	return accounts.Delete(name)
}

// A whole is what is known of all accounts together.
type whole struct {
	accounts int64
	sum      uint64 // of their checksums, modulo 2⁶⁴
	coming   int64  // accounts that this commit adds
	changed  bool
}

// replace takes note that a checksum becomes another; 0 stands for none.
func (w *whole) replace(before, after uint64) {
	w.changed = true
	w.sum += after - before
	if before == 0 {
		w.accounts++
		w.coming = max(0, w.coming-1)
	}
	if after == 0 {
		w.accounts--
	}
}

func loadWhole(tx *bolt.Tx) (*whole, error) {
	bucket := tx.Bucket(bucketWhole)
	if bucket == nil || tx.Bucket(bucketAccounts) == nil {
		return nil, fmt.Errorf("%w: it is not a counter's file", ErrDamaged)
	}
	b := bucket.Get(keyWhole)
	if len(b) != 25 || checksum(keyWhole, b[:17]) != binary.BigEndian.Uint64(b[17:]) {
		return nil, fmt.Errorf("%w: the record of the whole is missing or wrong", ErrDamaged)
	}
	if b[0] != format {
		return nil, fmt.Errorf("file: written in format %d, of a later version; this one knows %d", b[0], format)
	}
	return &whole{accounts: int64(binary.BigEndian.Uint64(b[1:])), sum: binary.BigEndian.Uint64(b[9:])}, nil
}

func (w *whole) store(tx *bolt.Tx) error {
	b := binary.BigEndian.AppendUint64([]byte{format}, uint64(w.accounts))
	b = binary.BigEndian.AppendUint64(b, w.sum)
	b = binary.BigEndian.AppendUint64(b, checksum(keyWhole, b))
	return tx.Bucket(bucketWhole).Put(keyWhole, b)
}
