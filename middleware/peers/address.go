// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// inNames are the letters of names.
const inNames = "abcdefghijklmnopqrstuvwxyz0123456789-_."

// addressOf returns an address, host:port, as it is written in every process. An IP address is in its short form, and a name is in lower case without a dot at the end.
func addressOf(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return "", errors.New("must be host:port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("must be host:port, with a port from 1 to 65535")
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" && !ip.IsUnspecified() { // a zone is one machine's
		return netip.AddrPortFrom(ip.Unmap(), uint16(n)).String(), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:] // 127.1 and 010.0.0.7 are addresses for some, as in URLs
	if last == "" || len(host) > 253 || last != host && strings.Trim(last, "0123456789") == "" || strings.ContainsFunc(host, func(r rune) bool { return !strings.ContainsRune(inNames, r) }) {
		return "", errors.New("must be host:port, with an IP address or a name")
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

// maxMembers is how many processes there are at most. Each has a connection to each: beyond thirty an exact counter is cheaper.
const maxMembers = 256

// listOf returns the addresses of a list in order, each once: the same list everywhere, in whatever order it came.
func listOf(addresses []string) ([]string, error) {
	list := make([]string, len(addresses))
	for i, a := range addresses {
		var err error
		if list[i], err = addressOf(a); err != nil {
			return nil, fmt.Errorf("%q %w", a, err)
		}
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) < 1 || len(list) > maxMembers {
		return nil, fmt.Errorf("must be 1 to %d addresses, not %d", maxMembers, len(list))
	}
	return list, nil
}

// A resolver asks DNS: [net.Resolver].
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// lookUp returns the list by DNS. Of a host with addresses of both families each process has two: those of the family of
// Self count, if it has one.
func lookUp(ctx context.Context, dns resolver, name, self string) (list []string, err error) {
	if strings.HasPrefix(name, "_") {
		_, records, err := dns.LookupSRV(ctx, "", "", name)
		for _, r := range records {
			list = append(list, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		return list, err
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
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
