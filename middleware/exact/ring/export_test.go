// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"net/http"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Resolver is what Config.DNS is asked of.
type Resolver = resolver

// OpenDeaf opens a ring without a listener: its Handler is asked by other means.
func OpenDeaf(cfg Config, dns Resolver) (*Ring, error) { return open(cfg, dns) }

// Handler answers the others.
func (r *Ring) Handler() http.Handler { return r.server.Handler }

// Open has so many more connections open.
func (r *Ring) Open(n int64) { r.open.Add(n) }

// MostOpen is how many there may be.
const MostOpen = mostOpen

// Adopt has the ring take a list.
func (r *Ring) Adopt(list ...string) { r.roster.adopt(must(listOf(list))) }

// OwnerOf returns the address of a key's owner, by the list of r.
func (r *Ring) OwnerOf(call exact.Call) string {
	return must(r.roster.owner(call.Policy, call.Key)).address
}

// Memory is where the keys of r are counted.
func (r *Ring) Memory() engine.Archive { return r.memory }

// AddressOf and ListOf read addresses.
var (
	AddressOf = addressOf
	ListOf    = listOf
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
