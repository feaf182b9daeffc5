// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// A file that has accounts of all earlier versions opens, and counts on with them.
func TestAccountsOfEarlierVersionsAreRead(t *testing.T) {
	accounts := exactkit.Earlier(t)
	p := exactkit.Compile(t, storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 600, Window: time.Hour})
	const nonce = 77
	var payload []byte
	for version, value := range accounts {
		payload = file.AppendAccount(payload, p.AccountName(version), value)
	}
	b := append(file.AppendHead(nil, nonce), file.Group('S', nonce, 1, payload)...)
	ends := file.AppendNumber(file.AppendNumber(nil, 'n', uint64(len(accounts))), 'r', 4096)
	b = append(b, file.Group('E', nonce, 2, ends)...)
	disk, clock := newMemDisk(), exacttest.NewClock()
	disk.put(memPath, append(b, make([]byte, 4096-len(b))...))
	clock.Advance(35 * time.Second)
	c := openOn(t, disk, 1<<30, file.Config{Now: clock.Now})
	for version := range accounts {
		require.EqualValues(t, 595, exactkit.Take(t, c, exact.Call{Key: version, Cost: 1, Policy: p}).Limits[0].Remaining, "version %s: four of five, and this one", version)
	}
}
