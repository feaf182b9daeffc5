package storeless_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// A diary is what a ledger should say: the slot of every sale.
type diary struct {
	crowds  int64
	written int64 // slot of the last entry
	slots   []int64
}

// count returns the sales that are remembered in a slot, and the slot that is
// being filled. A diary that is more than a slot ahead of the clock is moved.
func (d *diary) count(slot int64) (sold, filling int64) {
	if slot < d.written-1 {
		for i := range d.slots {
			d.slots[i] += slot - d.written
		}
		d.written = slot
	}
	filling = max(slot, d.written)
	for _, s := range d.slots {
		if s > filling-4 {
			sold++
		}
	}
	return sold, filling
}

func (d *diary) add(filling int64) {
	kept := []int64{filling}
	for _, s := range d.slots {
		if s > filling-4 {
			kept = append(kept, s)
		}
	}
	d.slots, d.written = kept, filling
}

// expect is the sale that all diaries together allow at now: its price, or the wait.
func expect(tariff storeless.Tariff, slot, now int64, diaries []*diary) (price, wait int64) {
	for _, d := range diaries {
		quota := tariff.Crowd * d.crowds
		sold, filling := d.count(now / slot)
		price = max(price, tariff.Work<<min(40, sold/quota))
		for then := filling; sold >= 4*quota; {
			then++
			sold = 0
			for _, s := range d.slots {
				if s > then-4 {
					sold++
				}
			}
			wait = max(wait, then*slot-now, 1)
		}
	}
	if wait > 0 {
		price = 0
	}
	return price, wait
}

// FuzzLedger sells to two /64s of a /56 of a /48, under any tariff and a clock
// that goes anywhere, and keeps a diary. The first two bytes are the tariff, every
// further pair an act.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0, 0, 4, 0, 4, 0, 4, 0, 4, 0})
	f.Fuzz(func(t *testing.T, acts []byte) {
		if len(acts) < 2 || len(acts) > 2000 {
			return
		}
		memory := []time.Duration{time.Minute, 61 * time.Second, 100 * time.Second, time.Hour, 24 * time.Hour}[acts[1]%5]
		s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 1 + int64(acts[0]%4), Memory: memory}, 64)
		slot := int64(s.slot() / time.Second)
		wide := []*diary{{crowds: 2}, {crowds: 3}} // small networks, so that they sell out
		diaries := [2][]*diary{{{crowds: 1}, wide[0], wide[1]}, {{crowds: 1}, wide[0], wide[1]}}
		now := opening
		sell := func(who int, work int64) {
			buyers := s.host(who, 0, 0)
			buyers[1].Crowds, buyers[2].Crowds = 2, 3
			price, wait := expect(s.tariff, slot, now.Unix(), diaries[who])
			want := storeless.Sale{Price: price, Wait: time.Duration(wait) * time.Second}
			require.Equal(t, want, s.quote(now, buyers))
			if work < 0 {
				work = price + work + 1
			}
			want.Granted = price > 0 && work >= price
			// A family that has ended is not Held, and leaves its cell free.
			require.Equal(t, want, s.m.Redeem(now, s.prices, buyers, 7, time.Unix(1, 0), work))
			if !want.Granted {
				return
			}
			for _, d := range diaries[who] {
				_, filling := d.count(now.Unix() / slot)
				d.add(filling)
			}
		}
		// Every ledger takes its cell, perhaps the one the ended family had left; the
		// last sale finds the family another. None is taken from another later, so a
		// clock that steps back finds what the diaries say.
		sell(0, 1000)
		sell(1, 8000)
		sell(0, 8000)
		for ; len(acts) >= 4; acts = acts[2:] {
			act, n := acts[2], int64(acts[3])
			switch act % 8 {
			case 0:
				now = now.Add(time.Duration(n) * time.Second)
			case 1: // to the edge of a slot, before or after
				now = time.Unix((now.Unix()/slot+1+n/2%4)*slot-n%2, 0)
			case 2:
				now = now.Add(-time.Duration(n) * time.Second)
			case 3:
				now = now.Add(-time.Duration(n%8*slot+n) * time.Second)
			case 4, 5: // to the hash: enough
				sell(int(act/8%2), -1)
			case 6: // one less
				sell(int(act/8%2), -2)
			case 7:
				sell(int(act/8%2), n*100)
			}
		}
	})
}

// The go command skips a seed folder that has moved without a word.
func TestLedgerSeedsExist(t *testing.T) {
	seeds, err := os.ReadDir(filepath.Join("testdata", "fuzz", "FuzzLedger"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(seeds), 6)
}
