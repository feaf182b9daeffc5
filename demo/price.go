// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/players"
)

// priceCurve buys tallies at one instance, and returns the path of what each of them costs, in an SVG of this size.
func priceCurve(width, height int) (string, error) {
	a, err := newArena(plan{Instances: 1, Quota: leastQuota})
	if err != nil {
		return "", err
	}
	defer a.close()
	const tallies, top = 256, 16 // W
	buyer := &players.Attacker{Fleet: &seat{Moved: a.fleet, arena: a, contestant: new(contestant), playing: true, yield: func(struct{}) bool { return true }}, From: []string{"198.51.100.9:4711"}}
	var points []string
	for n := range tallies + 1 {
		before := buyer.Gained().Spent
		buyer.Buy(0)
		cost := float64(buyer.Gained().Spent-before) / pow.MinWork
		points = append(points, fmt.Sprintf("%.1f %.1f", float64(n*width)/tallies, float64(height)*(1-cost/top)-2))
	}
	return "M" + strings.Join(points, "L"), a.trouble
}
