// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/rows"
)

// table is one of the page of this package.
func table(name string, head ...string) pages.Made {
	return pages.Made{Name: name, Page: "proof/lab/README.md", By: "make bounds", Head: head}
}

// of writes what was admitted, and the bound.
func of(admitted, bound int64) string { return pages.Figure(admitted) + " of " + pages.Figure(bound) }

// inW writes hashes in prices of the first tally.
func inW(hashes int64) string { return fmt.Sprintf("%.1f W", float64(hashes)/rows.W) }

// sizes are the numbers of instances of the attackers' tables.
var sizes = []int64{1, 3, 10, 100}
