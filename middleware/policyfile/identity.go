// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"net/netip"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// identityOf returns the function that keys, at path, describe: nil for the peer's address,
// which is the default and what some options ask for.
func identityOf(keys *identityKeys, path string, p *problems) middleware.IdentityFunc {
	var trusted []netip.Prefix
	for i, text := range keys.Trusted {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			p.add(element(path+".trusted", i), "%s", forms["network"].must)
			network = netip.MustParsePrefix("192.0.2.0/24") // in its place; nothing comes of it
		}
		trusted = append(trusted, network)
	}
	from := *keys.From
	if from == peer && keys.Trusted != nil {
		p.add(path+".trusted", "belongs to a field that a proxy writes, and not to peer")
	}
	named := ""
	switch takes := from == header || from == insecureNoPeer; {
	case takes && keys.Header == nil:
		p.add(path+".header", "is required: the field that holds the address")
		return nil
	case takes:
		named = *keys.Header
	case keys.Header != nil:
		p.add(path+".header", "belongs to header and insecure-no-peer")
	}
	var identity middleware.IdentityFunc
	var err error
	switch from {
	case forwardedFor:
		identity, err = middleware.ForwardedFor(trusted...)
	case header:
		identity, err = middleware.AddressFromHeader(named, trusted...)
	case insecureNoPeer:
		identity, err = middleware.InsecureNoPeer(named, trusted...)
	}
	for e := range storeless.ConfigErrors(err) {
		p.add(path+"."+e.Field, "%s", spelled(e.Problem))
	}
	return identity
}
