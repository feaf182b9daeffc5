// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// histories are what the accounts in testdata/accounts.json have behind them, as each version has written them.
// A new version adds its own, which TestAccountsOfEarlierVersionsAreRead prints where it finds none.
var histories = map[string]func(*testing.T, *past){
	// Of every limit: five calls, 7 s apart, of which the third was given back. The second version has first
	// kept, in a log, the part that came back, as the first did.
	"plain": func(t *testing.T, p *past) {
		p.call = exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, every...)}
		for n := range 5 {
			p.clock.Advance(7 * time.Second)
			p.take(p.call)
			if n == 2 {
				require.NoError(t, p.refund(n))
			}
		}
	},
	// Ten calls under IDs, of which all but the first are booked; two that were given back; a pause.
	"booked": func(t *testing.T, p *past) {
		p.call = exact.Call{Key: "k", Cost: 1, Ahead: exact.MaxAhead, Policy: exactkit.Compile(t,
			storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2},
			storeless.Limit{Name: "slow", Algorithm: storeless.LeakyBucket, Quota: 3600, Window: time.Hour})}
		for n := range 10 {
			p.call.ID = strconv.Itoa(n)
			p.take(p.call)
		}
		require.NoError(t, p.refund(4))
		require.NoError(t, p.refund(6))
		p.account.Take(p.clock.Now(), &exact.Call{Key: "k", Policy: p.call.Policy, Pause: 2 * time.Second})
	},
}

// A past is an account, and the receipts of its calls.
type past struct {
	account  engine.Account
	clock    *exacttest.Clock
	call     exact.Call
	receipts []exact.Receipt
}

func (p *past) take(call exact.Call) exact.Verdict {
	v := p.account.Take(p.clock.Now(), &call)
	if v.Admitted && !v.Replayed {
		p.receipts = append(p.receipts, v.Receipt)
	}
	return v
}

func (p *past) refund(n int) error { return p.account.Refund(p.clock.Now(), &p.receipts[n]) }

// numbered gives receipts the serials that a version before gave: from 1 on.
func (p *past) numbered(from int64) {
	for i := range p.receipts {
		r := &p.receipts[i]
		_, rest, booked := strings.Cut(r.Serial, "_")
		r.Serial = strconv.FormatInt(from+int64(i), 36)
		if booked {
			r.Serial += "_" + rest
		}
	}
}

// goesOn tells what becomes of it: what came back does so once, IDs are known, and what is counted is.
func (p *past) goesOn() (told []string) {
	tell := func(v exact.Verdict) {
		said := fmt.Sprint(v.Admitted, v.Replayed, v.Wait)
		for _, l := range v.Limits {
			said += fmt.Sprint(" ", l.Remaining, l.Reset)
		}
		told = append(told, said)
	}
	tell(p.take(p.call))
	for n := range 5 {
		told = append(told, fmt.Sprint(p.refund(n)))
	}
	for range 5 {
		p.clock.Advance(time.Second)
		call := p.call
		call.ID = ""
		tell(p.take(call))
	}
	return told
}

// earlier returns the accounts of each history, by the version that has written them.
func earlier(t testing.TB) map[string]map[string][]byte {
	text, err := os.ReadFile("testdata/accounts.json")
	require.NoError(t, err)
	var inHex map[string]map[string]string
	require.NoError(t, json.Unmarshal(text, &inHex))
	accounts := make(map[string]map[string][]byte)
	for history, versions := range inHex {
		accounts[history] = make(map[string][]byte)
		for version, account := range versions {
			accounts[history][version], err = hex.DecodeString(account)
			require.NoError(t, err)
		}
	}
	return accounts
}

// What an earlier version has stored is read, and counted on with as what this one stores.
func TestAccountsOfEarlierVersionsAreRead(t *testing.T) {
	for history, versions := range earlier(t) {
		play := func() *past {
			p := &past{clock: exacttest.NewClock()}
			histories[history](t, p)
			return p
		}
		today := play()
		require.Equal(t, hex.EncodeToString(versions["4"]), hex.EncodeToString(exactkit.Bytes(t, &today.account)), history)
		want := today.goesOn()
		for version, b := range versions {
			require.Equal(t, version[0]-'0', b[0])
			p := play()
			p.account = engine.Account{}
			require.NoError(t, p.account.UnmarshalBinary(b), "%s, version %s", history, version)
			if version < "4" {
				p.numbered(1)
			}
			require.Equal(t, want, p.goesOn(), "%s, version %s", history, version)
			require.EqualValues(t, 4, exactkit.Bytes(t, &p.account)[0], "what came back is said anew")
		}
	}
}
