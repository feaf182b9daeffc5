// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The widths and colours in which the home page is looked at.
func homeLooks() (all []look) {
	for _, width := range []int64{390, 768, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			all = append(all, look{fmt.Sprintf("%s-%d", scheme, width), []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}, width})
		}
	}
	return append(all, look{"forced-1280", []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}, 1280})
}

// A home is the home page of the demo in a browser.
type home struct {
	*tab
	demo *demo
}

func enter(t *testing.T, browser context.Context, program string) home {
	t.Helper()
	d := startDemo(t, program, "-work", "32768") // a busy machine is no slow device
	return home{open(t, browser, d.URL), d}
}

// press presses a button and waits for what is said then.
func (h home) press(selector, said string) {
	h.t.Helper()
	h.wait(`!document.querySelector("#send").hasAttribute("aria-busy")`)
	h.click(selector)
	h.wait(fmt.Sprintf(`new RegExp(%q).test(document.querySelector("#said").textContent)`, said))
	h.wait(`!document.querySelector("#send").hasAttribute("aria-busy")`)
}

// marks returns the answers as a string: a letter each.
func (h home) marks() string {
	h.t.Helper()
	return eval[string](h.tab, `[...document.querySelectorAll("#marks li")].map((li) => (li.matches(".in") ? "i" : "-")).join("")`)
}

// look checks the page as it looks: nothing may be wider than the screen, nothing that is said may be hard to see, and
// all that can be used has a name.
func (h home) look(state string) {
	h.t.Helper()
	for _, line := range h.outline() {
		for _, role := range []string{"button", "textbox", "slider", "checkbox", "link", "form", "region", "heading", "image"} {
			require.False(h.t, strings.HasPrefix(line, role+` ""`), "%s: without a name: %s", state, line)
		}
	}
	for _, l := range homeLooks() {
		h.wear(l)
		require.LessOrEqual(h.t, eval[int64](h.tab, `document.documentElement.scrollWidth`), l.width, "%s, %s", state, l.name)
		if !strings.HasPrefix(l.name, "forced") {
			h.axe()
			require.Empty(h.t, eval[[]string](h.tab, contrasts), "%s, %s", state, l.name)
		}
	}
	h.run(`(document.documentElement.dir = "rtl")`)
	h.wear(look{"at 200 %, from right to left", nil, 640})
	require.LessOrEqual(h.t, eval[int64](h.tab, `document.documentElement.scrollWidth`), int64(640), state)
	h.run(`(document.documentElement.dir = "ltr")`)
	h.wear(look{"desk", nil, 1280})
}

func TestHome(t *testing.T) {
	browser := launch(t)
	// By a clock that stands still where a minute begins: no count may begin anew while a test looks at it.
	program := kit.Build(t, "../../demo", "o.now = time.Now\n", "o.now = func() time.Time { return time.Unix(1_800_000_000, 0) }\n")

	t.Run("the attack begins by itself", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`document.querySelector("#go").textContent === "Stop"`)
		h.wait(`[...document.querySelectorAll("#arena td")].some((td) => td.textContent === "15")`)
		require.Equal(t, "Nothing above its bound, no honest visitor refused.", eval[string](h.tab, `document.querySelector(".verdict").textContent`))
		for _, size := range [][2]int64{{390, 844}, {1280, 800}} {
			h.screen(size[0], size[1])
			require.True(t, eval[bool](h.tab, `["#go", ".boxes", ".plot", ".verdict"].every((part) => { const box = document.querySelector(part).getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; })`), "the button, the boxes and the result are on the first screen of %v", size)
		}
		h.wear(look{"desk", nil, 1280})
		h.click("#go")
		h.wait(`document.querySelector("#go").textContent === "Attack"`)
		h.look("attacked")
		h.run(`(document.querySelector("[name=instances]").value = "10", document.querySelector("[name=instances]").dispatchEvent(new Event("change", { bubbles: true })))`)
		h.wait(`document.querySelectorAll(".boxes li").length === 10 && document.querySelector(".plot").textContent.includes("N·L = 50")`)
		h.click("[name=work]")
		h.wait(`document.querySelector("#arena").textContent.includes("works for 3 tallies")`)
		h.click("[name=peers]")
		h.wait(`document.querySelector(".plot").textContent.includes("L + (N−1)·1 = 14") || document.querySelector(".verdict").textContent.includes("without peers")`)
		h.look("heard")
		h.click("#go")
		h.demo.clean(t, h.tab)
	})

	t.Run("the form", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		h.press("[value='1']", "^Admitted by instance [123]\\.$")
		require.Equal(t, "1", eval[string](h.tab, `document.querySelector("#tag").textContent`), "the token says what was used")
		h.press("[value='20']", "^20 sent: 4 admitted, 16 refused\\.$")
		require.Equal(t, "iiiii"+strings.Repeat("-", 16), h.marks())
		require.Contains(t, eval[string](h.tab, `document.querySelector("#token").textContent`), `,5,0,`)
		h.click("#throw")
		require.Equal(t, "–", eval[string](h.tab, `document.querySelector("#tag").textContent`))
		h.press("[value='20']", "^20 sent: [0-9]+ admitted")
		h.press("#buy", "^Bought for about 32,768 hashes in ")
		require.Contains(t, eval[string](h.tab, `document.querySelector("#token").textContent`), `"fam":`)
		h.press("[value='1']", "^Admitted by instance [123]\\.$")
		h.look("form")
		h.demo.clean(t, h.tab)
	})

	t.Run("by the keyboard", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		var order []string
		for len(order) < 12 {
			h.do(chromedp.KeyEvent(kb.Tab))
			order = append(order, eval[string](h.tab, `document.activeElement.id || document.activeElement.name || document.activeElement.value || document.activeElement.tagName.toLowerCase()`))
		}
		require.Equal(t, []string{"a", "go", "instances", "limit", "work", "peers", "message", "1", "20", "throw", "buy", "pre"}, order)
		require.NotEqual(t, "none", eval[string](h.tab, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is seen")
		h.run(`document.querySelector("#message").focus()`)
		h.do(chromedp.KeyEvent(kb.Enter))
		h.wait(`/^Admitted by instance [123]\.$/.test(document.querySelector("#said").textContent)`)
	})

	t.Run("what a screen reader hears", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		h.run(`(window.heard = [], new MutationObserver(() => heard.push(document.querySelector("#said").textContent)).observe(document.querySelector("#said"), { childList: true, characterData: true, subtree: true }))`)
		h.press("[value='20']", "^20 sent")
		require.Equal(t, []string{"20 sent: 5 admitted, 15 refused."}, eval[[]string](h.tab, `heard`), "one sentence for twenty answers")
		require.Equal(t, 1, eval[int](h.tab, `document.querySelectorAll("h1").length`))
		require.Equal(t, 1, eval[int](h.tab, `document.querySelectorAll("[role=status], [aria-live]").length`))
		require.Empty(t, eval[[]string](h.tab, `[...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`), "ids are ids")
	})

	t.Run("without motion", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wear(look{"calm", []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}, 1280})
		h.visit(h.demo.URL)
		h.wait(`!document.querySelector("#buy").hidden`)
		require.Equal(t, "Attack", eval[string](h.tab, `document.querySelector("#go").textContent`), "nothing moves before the button is pressed")
		h.press("[value='20']", "^20 sent")
		require.Equal(t, 0, eval[int](h.tab, `document.getAnimations().length`))
	})

	t.Run("without a script", func(t *testing.T) {
		h := enter(t, browser, program)
		h.scripts(false)
		h.visit(h.demo.URL)
		require.True(t, eval[bool](h.tab, `document.querySelector("#buy").hidden`))
		h.click("[name=work]")
		h.click("#go")
		h.wait(`document.readyState === "complete" && location.pathname === "/attack" && document.querySelector("#arena").textContent.includes("works for 3 tallies")`)
		h.click("[value='1']")
		h.wait(accepted)
		h.demo.clean(t, h.tab)
	})
}

// contrasts is a script for the texts whose contrast with what is behind them is below 4.5, as
// WCAG 2.2 (1.4.3) wants it. What is dimmed is taken as it is seen.
const contrasts = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (colour) => {
		canvas.clearRect(0, 0, 1, 1);
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
		return [r, g, b, a / 255];
	};
	const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
	const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.matches(".unseen, noscript, noscript *")) continue;
		const chain = [];
		for (let up = e; up; up = up.parentElement) chain.unshift(up);
		let back = rgba(getComputedStyle(document.documentElement).backgroundColor), opacity = 1;
		if (!back[3]) back = rgba(getComputedStyle(document.body).backgroundColor);
		for (const up of chain) {
			back = over(rgba(getComputedStyle(up).backgroundColor), back);
			opacity *= +getComputedStyle(up).opacity;
		}
		let front = rgba(getComputedStyle(e).color);
		front[3] *= opacity;
		front = over(front, back);
		const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) bad.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + e.textContent.trim().slice(0, 30));
	}
	return bad;
})()`

// outline returns what the accessibility tree has: role, name, and whether it is live.
func (b *tab) outline() (lines []string) {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(b.t, err)
	for _, n := range result.Nodes {
		if n.Ignored {
			continue
		}
		line := fmt.Sprintf("%s %q", said(n.Role), said(n.Name))
		for _, p := range n.Properties {
			if p.Name == "live" && said(p.Value) != "" {
				line += " live=" + said(p.Value)
			}
		}
		lines = append(lines, line)
	}
	return lines
}
