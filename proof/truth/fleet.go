// SPDX-License-Identifier: Apache-2.0

package truth

// Instances are N that are there when a window begins, and C that start anew in it. Each knows what it has admitted
// itself, and what a client shows. The methods are the formulas of docs/bounds.md.
type Instances struct{ N, C int64 }

// Net56 and Net48 are how many quotas of an address an IPv6 /56 and a /48 have together.
const (
	Net56 = 8
	Net48 = 64
)

func (i Instances) all() int64 { return i.N + i.C }

// Drops is (N+C)·L: what a client gets that shows no token.
func (i Instances) Drops(quota int64) int64 { return i.all() * quota }

// AtOnce is min(B, N)·L: what one gets that echoes, with B requests under way.
func (i Instances) AtOnce(quota, requests int64) int64 { return min(requests, i.N) * quota }

// Buys is F·(N+C)·L: where work comes first, and F tallies are bought.
func (i Instances) Buys(quota, tallies int64) int64 { return tallies * i.Drops(quota) }

// Adds is (1+F)·(N+C)·L: where work buys more.
func (i Instances) Adds(quota, tallies int64) int64 { return i.Drops(quota) + i.Buys(quota, tallies) }

// Proves is min((N+C)·L, (N+C)·S): where each request needs a proof, and S are shown.
func (i Instances) Proves(quota, shown int64) int64 { return i.all() * min(quota, shown) }

// Waits is (N+C)·max(1, L/5): what the waiting room admits.
func (i Instances) Waits(quota int64) int64 { return i.all() * max(1, quota/5) }

// Outage is L + (N+C)·max(1, L/N): what an exact route admits that fails open.
func (i Instances) Outage(quota int64) int64 { return quota + i.all()*max(1, quota/i.N) }
