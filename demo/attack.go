// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// attack plays the attack of the home page in the terminal, or draws its picture into a file. Its error says that a
// client got more than its bound, or that an honest visitor was refused.
func attack(ctx context.Context, o options) (err error) {
	p := plan{Instances: min(o.instances, mostAttacked), Quota: defaultPlan.Quota, Work: o.picture == "", Peers: o.peers}
	a, err := newArena(p)
	if err != nil {
		return err
	}
	defer a.close()
	if o.picture != "" {
		return a.write(o.picture)
	}
	store := "share a secret and no store"
	if p.Peers {
		store = "hear each other, and share no store"
	}
	fmt.Fprintf(o.stdout, "%d instances %s. Each admits %d requests a minute; the clock is %d times as fast. Ctrl-C stops.\n", p.Instances, store, p.Quota, faster)
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for range attackFrames {
		a.advance()
		if a.frame%windowFrames == 0 {
			fmt.Fprintf(o.stdout, "\nafter %d seconds\n", a.frame/10)
			table := tabwriter.NewWriter(o.stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
			fmt.Fprintln(table, "client\tmost in a minute\tbound\trefused\t")
			for _, c := range a.clients {
				fmt.Fprintf(table, "%s\t%d\t%d\t%d\t\n", c.Name, c.Most, c.Bound, c.Refused)
			}
			_ = table.Flush()
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	if broken := a.broken(); broken != "" {
		return errors.New(broken)
	}
	if a.apart() {
		fmt.Fprintln(o.stdout, "\nAn instance was late to answer the others: these are the bounds without peers.")
	}
	fmt.Fprintln(o.stdout, "\nNothing above its bound, no honest visitor refused.")
	return a.trouble
}

// write writes a picture of three windows, for pages that are not this site's.
func (a *arena) write(name string) error {
	var b bytes.Buffer
	if err := templates["home"].ExecuteTemplate(&b, "picture", a.played(shownFrames)); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(name, b.Bytes(), 0o644), a.trouble)
}
