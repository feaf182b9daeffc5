// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
)

// maxMembers is how many processes there are at most. Each has a connection to each: beyond thirty an exact counter is
// cheaper.
const maxMembers = gossip.MostProcesses

// check reports whether an address is host:port.
func check(address string) error {
	host, port, err := net.SplitHostPort(address)
	if n, notPort := strconv.ParseUint(port, 10, 16); err != nil || host == "" || notPort != nil || n == 0 {
		return errors.New("must be host:port, with a port from 1 to 65535")
	}
	return nil
}

// listOf returns the addresses of a list in order, each once: the same list in whatever order it came.
func listOf(addresses []string) ([]string, error) {
	for _, a := range addresses {
		if err := check(a); err != nil {
			return nil, fmt.Errorf("%q %w", a, err)
		}
	}
	list := slices.Compact(slices.Sorted(slices.Values(addresses)))
	if len(list) < 1 || len(list) > maxMembers {
		return nil, fmt.Errorf("must be 1 to %d addresses, not %d", maxMembers, len(list))
	}
	return list, nil
}

// portOf returns the port that all addresses have, if they have one.
func portOf(addresses []string) (port string) {
	for i, a := range addresses {
		_, p, _ := net.SplitHostPort(a)
		if i > 0 && p != port {
			return ""
		}
		port = p
	}
	return port
}

// A resolver asks DNS: [net.Resolver].
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// lookUp returns the list by DNS. A process of a host with addresses of both families has two: the addresses in the
// family of Self count, if it has one.
func lookUp(ctx context.Context, dns resolver, name, self string) (list []string, err error) {
	if strings.HasPrefix(name, "_") {
		_, records, err := dns.LookupSRV(ctx, "", "", name)
		for _, r := range records {
			list = append(list, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		return list, err
	}
	host, port, _ := net.SplitHostPort(name)
	family := "ip"
	if is, err := netip.ParseAddrPort(self); err == nil {
		family = map[bool]string{true: "ip4", false: "ip6"}[is.Addr().Is4()]
	}
	ips, err := dns.LookupNetIP(ctx, family, host)
	for _, ip := range ips {
		list = append(list, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return list, err
}

// A target is an address of the list, or one that a peer has told.
type target struct {
	address  string
	listed   bool
	told     time.Time // by a peer, the last time
	name     uint64    // of the process that has answered there last
	dialing  bool
	answered time.Time // the last time, or when it came onto the list
	err      error     // why it did not
}

// A roster is the list of this process, and what its peers have told. It says only which addresses are greeted.
type roster struct {
	list    []string // in order; nil: there was none yet
	digest  uint64
	changes uint64
	at      time.Time // when it was told last
	targets []*target
}

// adopt takes a list, which is in order. It reports what is new and what is gone, if that is not the first.
func (r *roster) adopt(list []string, now time.Time) (came, went []string, changed bool) {
	r.at = now
	if slices.Equal(list, r.list) {
		return nil, nil, false
	}
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	r.digest = binary.BigEndian.Uint64(sum[:])
	r.changes++
	for _, t := range r.targets {
		t.listed = false
	}
	for _, address := range list {
		r.target(address, now).listed = true
	}
	came, went, changed = without(list, r.list), without(r.list, list), r.list != nil
	r.list = list
	return came, went, changed
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(address string) bool { return slices.Contains(other, address) })
}

// target returns the target of an address, which may be a new one.
func (r *roster) target(address string, now time.Time) *target {
	for _, t := range r.targets {
		if t.address == address {
			return t
		}
	}
	t := &target{address: address, answered: now}
	r.targets = append(r.targets, t)
	return t
}

// hear takes the addresses that a peer hears: a list may be older than a process.
func (r *roster) hear(addresses string, now time.Time) {
	for address := range strings.SplitSeq(addresses, "\n") {
		if check(address) == nil && len(r.targets) < maxMembers {
			r.target(address, now).told = now
		}
	}
}

// expire drops what is neither on the list nor told any more.
func (r *roster) expire(now time.Time) {
	r.targets = slices.DeleteFunc(r.targets, func(t *target) bool { return !t.listed && !t.dialing && now.Sub(t.told) > silence })
}
