// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds are the rows of docs/bounds.md that apply to one configuration, with its numbers: what a client gets at most.
// They hold for one identity and requests that cost 1, while the configuration stays as it is, the clocks agree and no
// instance starts anew: one that does counts as one more.
type Bounds struct {
	Policy string

	// Instances is N, see [Config.Instances].
	Instances int64

	// Rows have the limits of one tier after the other, and of each tier one client after the other. A Shadow has none.
	Rows []Bound

	// Warning names a number that defeats the limit, and a cure. It is empty where there is none.
	Warning string
}

// A Bound is what a client gets of one limit at most. It is plain data.
type Bound struct {
	Tier  string // "": Config.Limits
	Limit Limit  // with its defaults filled in

	// Client says what the client does. Of work it says for how many seconds a core computes, at all instances
	// together and for all that the client can show in the window: 74.7 million hashes a second, which a program in C
	// reached with the SHA extensions of x86 (proof/lab/price). With AVX-512 it is a fifth more.
	Client string

	// Admitted is the number of requests in an aligned window of the limit, or in any span of that length if it is a
	// bucket or a log. [math.MaxInt64] means: not limited.
	Admitted int64
}

// warning says what is absurd about a row, and what would mend it.
func (b *Bound) warning(cfg *Config) string {
	cure := "use Exact"
	switch {
	case cfg.InsecureNoMemory:
		cure = "take InsecureNoMemory away"
	case cfg.Exact != nil:
		cure = "let it fail closed"
	case cfg.Challenge != nil:
		cure = "use Exact, or a larger Challenge.Work"
	}
	return fmt.Sprintf("a client that %s gets %s where %s is meant, with N = %s: %s", b.Client, figure(b.Admitted), b.meant(), figure(cfg.Instances), cure)
}

// meant is what the limit says.
func (b *Bound) meant() string {
	window := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(b.Limit.Window.String())
	return figure(b.Limit.Quota) + " in " + window
}

// figure writes a number with a comma at each thousand.
func figure(n int64) string {
	if n == math.MaxInt64 {
		return "not limited"
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// String writes a table for each tier, of aligned lines: a client each, and a column for each limit.
func (b Bounds) String() string {
	var out strings.Builder
	width := 0
	for _, r := range b.Rows {
		width = max(width, len(r.Client))
	}
	last := Bound{Tier: "\n"} // which is no tier
	for i, r := range b.Rows {
		if r.Tier != last.Tier {
			title := fmt.Sprintf("%s, N = %s", b.Policy, figure(b.Instances))
			if r.Tier != "" {
				title = "tier " + r.Tier
			}
			fmt.Fprintf(&out, "%-*s", width, title)
			for _, head := range b.Rows[i:] {
				if head.Tier != r.Tier || head.Client != r.Client {
					break
				}
				fmt.Fprintf(&out, "%18s", head.meant())
			}
			out.WriteString("\n")
		}
		if r.Tier != last.Tier || r.Client != last.Client {
			fmt.Fprintf(&out, "%-*s", width, r.Client)
		}
		fmt.Fprintf(&out, "%18s", figure(r.Admitted))
		if i+1 == len(b.Rows) || b.Rows[i+1].Client != r.Client || b.Rows[i+1].Tier != r.Tier {
			out.WriteString("\n")
		}
		last = r
	}
	if b.Warning != "" {
		out.WriteString(b.Warning + "\n")
	}
	return out.String()
}
