// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/storeless"
)

// A file that has accounts of all earlier versions opens, and counts on with them.
func TestAccountsOfEarlierVersionsAreRead(t *testing.T) {
	text, err := os.ReadFile("../testdata/accounts.json")
	require.NoError(t, err)
	var accounts struct{ Plain map[string]string }
	require.NoError(t, json.Unmarshal(text, &accounts))
	p := compile(t, storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 600, Window: time.Hour})
	const nonce = 77
	var payload []byte
	for version, account := range accounts.Plain {
		value, err := hex.DecodeString(account)
		require.NoError(t, err)
		payload = file.AppendAccount(payload, p.AccountName(version), value)
	}
	b := append(file.AppendHead(nil, nonce), file.Group('S', nonce, 1, payload)...)
	ends := file.AppendNumber(file.AppendNumber(nil, 'n', uint64(len(accounts.Plain))), 'r', 4096)
	b = append(b, file.Group('E', nonce, 2, ends)...)
	disk, clock := newMemDisk(), exacttest.NewClock()
	disk.put(memPath, append(b, make([]byte, 4096-len(b))...))
	clock.Advance(35 * time.Second)
	c, err := file.OpenOn(disk, memPath, 1<<30, file.Config{Now: clock.Now})
	require.NoError(t, err)
	for version := range accounts.Plain {
		v, err := c.Take(t.Context(), exact.Call{Key: version, Cost: 1, Policy: p})
		require.NoError(t, err)
		require.EqualValues(t, 595, v.Limits[0].Remaining, "version %s: four of five, and this one", version)
	}
	require.NoError(t, c.Close())
}
