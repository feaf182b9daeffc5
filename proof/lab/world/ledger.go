// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/netip"
	"sync"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/instance"
)

// A ledger notes what was said about each identity on a policy whose counter is exact.
type ledger struct {
	quota    int64 // of the counter
	fallback int64 // all instances together may admit so much without it
	closed   bool  // nothing may be admitted without it

	mu       sync.Mutex
	accounts map[netip.Addr]*account

	findings ledgerFindings
}

// An account is one identity.
type account struct {
	acknowledged int64 // the counter said yes
	unknown      int64 // no answer: it may have counted
	fellBack     int64 // admitted without it
	underway     int64
}

type ledgerFindings struct {
	Acknowledged int64 `what:"acknowledged" least:"1"`
	Checked      int64 `what:"accounts compared with Redis" least:"1"`
	Lost         int64 `what:"acknowledged, and not in Redis"`
	Invented     int64 `what:"in Redis, and never charged"`
	OverQuota    int64 `what:"acknowledged beyond the quota"`
	OverOutage   int64 `what:"admitted beyond what an outage permits"`
	Unjust       int64 `what:"refused by a counter that had room"`
	Unexplained  int64 `what:"no answer, though Redis stood"`

	fellBack, unknown, load, most, mostFellBack int64 // the last two of one account
}

func newLedger(quota, fallback int64, closed bool) *ledger {
	return &ledger{quota: quota, fallback: fallback, closed: closed, accounts: map[netip.Addr]*account{}}
}

func (l *ledger) of(a netip.Addr) *account {
	if l.accounts[a] == nil {
		l.accounts[a] = &account{}
	}
	return l.accounts[a]
}

func (l *ledger) begin(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(a).underway++
}

// decided notes a decision. stood says that the server stood from the request's beginning to
// now, and that all instances knew it.
func (l *ledger) decided(a netip.Addr, d instance.Decision, stood bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, f := l.of(a), &l.findings
	of.underway--
	switch d.Call {
	case "busy", "full", "contended":
		f.load++
		of.unknown++ // one that met its deadline may have been charged
	case "skipped", "failed", "down":
		f.unknown++
		of.unknown++
		if stood {
			f.Unexplained++
		}
	}
	switch {
	case d.Admitted && d.Degraded:
		of.fellBack++
		f.fellBack++
		f.mostFellBack = max(f.mostFellBack, of.fellBack)
		if l.closed || of.fellBack > l.fallback {
			f.OverOutage++
		}
	case d.Admitted:
		of.acknowledged++
		f.Acknowledged++
		f.most = max(f.most, of.acknowledged)
		if of.acknowledged > l.quota {
			f.OverQuota++
		}
	case d.Reason == string(middleware.OverLimit) && !d.Degraded:
		if of.acknowledged+of.unknown+of.underway < l.quota {
			f.Unjust++
		}
	}
}

// lose notes that there was no answer: it may have counted.
func (l *ledger) lose(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(a).underway--
	l.of(a).unknown++
}

// compare notes what the server has of an account, which is closed with that.
func (l *ledger) compare(a netip.Addr, used int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(a)
	l.findings.Checked++
	l.findings.Lost += max(0, of.acknowledged-used)
	l.findings.Invented += max(0, used-of.acknowledged-of.unknown)
	delete(l.accounts, a)
}

// open returns those whose accounts are open.
func (l *ledger) open() (list []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.accounts {
		list = append(list, a)
	}
	return list
}
