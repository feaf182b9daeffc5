// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// spoken are the roles of the element that a screen reader tells of, and what each
// line of its tree says: role, name, whether it is live, and has the focus.
var spoken = map[string]bool{"form": true, "status": true, "timer": true, "button": true, "progressbar": true}

// tree returns the accessibility tree of the form, as far as the element has a part in
// it: a line for each node, in their order. The form's own buttons are left out.
func (b *tab) tree() (lines []string) {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(b.t, err)
	full := result.Nodes
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range full {
		byID[n.NodeID] = n
	}
	var text func(n *accessibility.Node) string
	text = func(n *accessibility.Node) (words string) {
		if !n.Ignored && said(n.Role) == "StaticText" {
			return said(n.Name)
		}
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				words += text(child)
			}
		}
		return words
	}
	var walk func(n *accessibility.Node)
	walk = func(n *accessibility.Node) {
		role := said(n.Role)
		if name := said(n.Name); !n.Ignored && spoken[role] && !(role == "button" && (name == "Send" || name == "Save" || name == "Reset")) {
			words := []string{role}
			if role == "status" || role == "timer" {
				name = text(n)
			}
			words = append(words, fmt.Sprintf("%q", name))
			for _, p := range n.Properties {
				switch value := said(p.Value); {
				case p.Name == "live" && value != "":
					words = append(words, "live="+value)
				case p.Name == "focused" && value == "true":
					words = append(words, "focused")
				}
			}
			lines = append(lines, strings.Join(words, " "))
		}
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				walk(child)
			}
		}
	}
	walk(full[0])
	return lines
}

// said is a value as text.
func said(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var any any
	if json.Unmarshal(v.Value, &any) != nil || any == nil { // not there
		return ""
	}
	return fmt.Sprint(any)
}
