// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The widths and colours in which the showroom is looked at.
var showroomLooks = []look{
	{"light-phone", []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}, 390},
	{"dark-phone", []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}, 390},
	{"light-desk", []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}, 1000},
	{"dark-desk", []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}, 1000},
	{"forced-desk", []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}, 1000},
	{"forced-phone", []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}, 320},
}

// A hall is the showroom in a browser.
type hall struct {
	*tab
	demo *demo
}

func enter(t *testing.T, browser context.Context, program string) hall {
	t.Helper()
	d := startDemo(t, program, "-work", "32768") // a busy machine is no slow device
	return hall{open(t, browser, d.URL), d}
}

// press presses a button and waits for what is said then.
func (h hall) press(id, said string) {
	h.t.Helper()
	h.idle()
	h.click("#" + id)
	h.told(said)
}

func (h hall) told(said string) {
	h.t.Helper()
	h.wait(fmt.Sprintf(`new RegExp(%q).test(document.querySelector("#said").textContent)`, said))
	h.idle()
}

// idle waits until the buttons take a press.
func (h hall) idle() {
	h.t.Helper()
	h.wait(`!document.querySelector(".buttons [aria-disabled]")`)
}

// counts returns what the rows say: admitted, bound, formula, refused.
func (h hall) counts() []string {
	h.t.Helper()
	return eval[[]string](h.tab, `[...document.querySelectorAll(".lane .count")].map((p) => p.textContent)`)
}

// marks returns the answers of a row as a string: a letter and an instance each.
func (h hall) marks(row int) string {
	h.t.Helper()
	return eval[string](h.tab, fmt.Sprintf(`[...document.querySelectorAll(".lane")[%d].querySelectorAll(".marks li")].map((li) => (li.matches(".own") ? "o" : li.matches(".in") ? "i" : "-")).join("")`, row))
}

func (h hall) marked() []string {
	h.t.Helper()
	return eval[[]string](h.tab, `[...document.querySelectorAll(".token code mark")].map((m) => m.textContent)`)
}

// soundOutline requires that all that can be used has a name, and that one thing alone is read
// out by itself.
func (h hall) soundOutline(state string) {
	h.t.Helper()
	live := 0
	for _, line := range h.outline() {
		for _, role := range []string{"button", "textbox", "link", "form", "group", "region", "heading"} {
			require.False(h.t, strings.HasPrefix(line, role+` ""`), "%s: without a name: %s", state, line)
		}
		if strings.Contains(line, "live=") {
			require.Equal(h.t, `status "" live=polite`, line, state)
			live++
		}
	}
	require.Equal(h.t, 1, live, state)
}

// look has people look at each state, if they want to: see TestScreenshots. In any case nothing
// may be wider than the screen.
func (h hall) look(state string) {
	h.t.Helper()
	h.soundOutline(state)
	dir := os.Getenv("TALLYSTICK_SHOTS")
	for _, l := range showroomLooks {
		h.wear(l)
		require.LessOrEqual(h.t, eval[int64](h.tab, `document.documentElement.scrollWidth`), l.width, "%s, %s", state, l.name)
		if dir == "" {
			continue
		}
		picture, err := chromedp.Run(h.ctx, chromedp.FullScreenshot(100))
		require.NoError(h.t, err)
		require.NoError(h.t, os.WriteFile(filepath.Join(dir, "showroom-"+state+"-"+l.name+".png"), picture, 0o600))
	}
	h.wear(look{"desk", nil, 1000})
}

func TestShowroom(t *testing.T) {
	browser := launch(t)
	// By a clock that stands still where an hour begins: no count may begin anew while a test looks at it.
	program := kit.Build(t, "../../demo", "o.now = time.Now\n", "o.now = func() time.Time { return time.Unix(1_800_000_000, 0) }\n")

	t.Run("every button, in turn", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "0 admitted, at most 15 = 3 · L; 0 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts())
		h.look("0-home")

		h.press("one", "^Admitted by instance [123]. 4 left.$")
		require.Equal(t, "i", h.marks(0))
		require.Equal(t, []string{"1"}, h.marked())
		require.Equal(t, 1, eval[int](h.tab, `document.querySelectorAll(".instance.lit.in").length`))
		h.look("1-one")

		h.press("twenty", "^20 sent: 4 admitted, 16 refused.$")
		require.Equal(t, "iiiii"+strings.Repeat("-", 16), h.marks(0))
		require.Equal(t, "5 admitted, at most 5 = L; 16 refused", h.counts()[0])
		require.Equal(t, []string{"5"}, h.marked())
		h.look("2-twenty")

		h.press("throw", "^The token is gone.")
		require.Contains(t, eval[string](h.tab, `document.querySelector(".token").innerText`), "Thrown away.")
		require.Equal(t, "keep", eval[string](h.tab, `document.activeElement.id`), "the focus is on its opposite")
		require.True(t, eval[bool](h.tab, `document.querySelector("#buy").hidden`))
		h.look("3-thrown")

		h.press("twenty", "^20 sent: 15 admitted, 5 refused.$")
		require.Equal(t, []string{"5 admitted, at most 5 = L; 16 refused", "15 admitted, at most 15 = 3 · L; 5 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts())
		require.Equal(t, strings.Repeat("i", 15)+"-----", h.marks(1))
		h.look("4-thrown-twenty")

		h.press("keep", "^A new count begins")
		require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "15 admitted, at most 15 = 3 · L; 5 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts(), "a client of its own")
		h.press("twenty", "^20 sent: 5 admitted, 15 refused.$")
		h.press("buy", "^Bought, for some 32,768 hashes")
		require.Equal(t, []string{"5 admitted, at most 5 = L; 15 refused", "15 admitted, at most 15 = 3 · L; 5 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts())
		require.Len(t, h.marked(), 1, "the tally is new")
		require.Contains(t, eval[string](h.tab, `document.querySelector(".token dl").innerText`), `"fam":`)
		h.look("5-bought")

		h.press("one", "^Admitted by instance [123]. 4 left.$")
		require.Equal(t, "o", h.marks(2), "a row of its own")
		require.Equal(t, "iiiii"+strings.Repeat("-", 15), h.marks(0))
		h.look("6-bought-one")

		h.press("again", "^A new count begins")
		require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "0 admitted, at most 15 = 3 · L; 0 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts())
		require.Empty(t, h.marked())
		h.press("one", "^Admitted by instance [123]. 4 left.$")
		require.Len(t, h.loaded("/showroom/events"), 1, "one stream for all of it")
		h.demo.clean(t, h.tab)
	})

	t.Run("drawn by the stream", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`document.documentElement.matches(".live")`)
		// The page never hears when it asks for the picture itself.
		h.run(`(async () => {
			const fetched = window.fetch;
			window.fetch = (url, ...more) => String(url).endsWith("/stage") ? new Promise(() => {}) : fetched(url, ...more);
			window.pictures = [];
			new MutationObserver(() => pictures.push(document.querySelectorAll(".active .marks li").length)).observe(document.querySelector(".room"), { childList: true });
		})()`)
		h.click("#twenty")
		h.wait(`document.querySelectorAll(".active .marks li").length === 20`)
		require.Equal(t, "iiiii"+strings.Repeat("-", 15), h.marks(0))
		require.True(t, slices.IsSorted(eval[[]int](h.tab, `pictures`)), "the newer stays")
	})

	t.Run("drawn without a stream", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`document.documentElement.matches(".live")`)
		h.run(`(async () => {
			Object.defineProperty(document, "hidden", { value: true });
			document.dispatchEvent(new Event("visibilitychange"));
		})()`)
		require.False(t, eval[bool](h.tab, `document.documentElement.matches(".live")`), "nobody looks: no stream")
		h.press("twenty", "^20 sent: 5 admitted, 15 refused.$")
		require.Equal(t, "iiiii"+strings.Repeat("-", 15), h.marks(0))
	})

	t.Run("by the keyboard", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		tab := func() string {
			h.do(chromedp.KeyEvent(kb.Tab))
			return eval[string](h.tab, `document.activeElement.id || document.activeElement.tagName.toLowerCase()`)
		}
		var order []string
		for len(order) < 12 {
			order = append(order, tab())
		}
		require.Equal(t, []string{"a", "name", "email", "message", "one", "twenty", "throw", "buy", "again", "pre", "a", "a"}, order)
		require.NotEqual(t, "none", eval[string](h.tab, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is seen")
		h.run(`document.querySelector("#message").focus()`)
		h.do(chromedp.KeyEvent(kb.Enter))
		h.told("^Admitted by instance [123]. 4 left.$")
		require.Equal(t, "one", tab())
		require.Equal(t, "twenty", tab())
		h.do(chromedp.KeyEvent(" "))
		h.told("^20 sent: 4 admitted, 16 refused.$")
		require.Equal(t, "twenty", eval[string](h.tab, `document.activeElement.id`), "the focus has not moved")
		require.Equal(t, "throw", tab())
		h.do(chromedp.KeyEvent(kb.Enter))
		h.told("^The token is gone.")
		require.Equal(t, "keep", eval[string](h.tab, `document.activeElement.id`))
		h.do(chromedp.KeyEvent(kb.Enter))
		h.told("^A new count begins")
		require.Equal(t, "throw", eval[string](h.tab, `document.activeElement.id`))
		require.Equal(t, "buy", tab())
		h.do(chromedp.KeyEvent(kb.Enter))
		h.told("^Bought")
		h.demo.clean(t, h.tab)
	})

	t.Run("what a screen reader has", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		h.run(`(window.heard = [], new MutationObserver(() => heard.push(document.querySelector("#said").textContent)).observe(document.querySelector("#said"), { childList: true, characterData: true, subtree: true }))`)
		h.press("twenty", "^20 sent")
		require.Equal(t, []string{"20 sent: 5 admitted, 15 refused."}, eval[[]string](h.tab, `heard`), "one sentence for twenty answers")
		h.wait(`document.documentElement.matches(".live")`)
		outline := h.outline()
		for _, want := range []string{
			`heading "One limit, 3 instances, no store"`, `form "Message"`, `textbox "Name"`, `textbox "E-mail"`, `textbox "Message"`,
			`group "What to do"`, `button "Send one"`, `button "Send 20"`, `button "Throw the token away"`, `button "Buy a tally"`, `button "Start again"`,
			`status "" live=polite`, `heading "3 instances · live"`, `heading "The token is shown now"`, `heading "The token is thrown away"`,
			`list "Answers"`, `heading "Your token"`, `region "All that a server needs"`, `link "four more forms"`,
		} {
			require.Contains(t, outline, want)
		}
		h.soundOutline("twenty")
		require.Equal(t, "1: admitted by instance ", eval[string](h.tab, `document.querySelector(".marks li .unseen").textContent`))
		require.Equal(t, 1, eval[int](h.tab, `document.querySelectorAll("h1").length`))
		require.Empty(t, eval[[]string](h.tab, `[...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`), "ids are ids")
	})

	t.Run("colours tell apart", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		h.press("twenty", "^20 sent")
		for _, l := range showroomLooks[:4] {
			h.wear(l)
			h.wait(`!document.getAnimations().length`)
			require.Empty(t, eval[[]string](h.tab, contrasts), l.name)
		}
	})

	t.Run("without motion", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wear(look{"calm", []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}, 1000})
		h.visit(h.demo.URL)
		h.wait(`!document.querySelector("#buy").hidden`)
		h.press("twenty", "^20 sent")
		require.Equal(t, 0, eval[int](h.tab, `document.getAnimations().length`))
		require.Equal(t, "none", eval[string](h.tab, `getComputedStyle(document.querySelector(".lit")).animationName`))
	})

	t.Run("two visitors see their own", func(t *testing.T) {
		h := enter(t, browser, program)
		h.wait(`!document.querySelector("#buy").hidden`)
		other := hall{open(t, browser, h.demo.URL), h.demo}
		other.wait(`!document.querySelector("#buy").hidden`)
		h.press("twenty", "^20 sent: 5 admitted, 15 refused.$")
		other.press("one", "^Admitted by instance [123]. 4 left.$")
		require.Equal(t, "i", other.marks(0))
		require.Equal(t, "iiiii"+strings.Repeat("-", 15), h.marks(0))
	})

	t.Run("without a script", func(t *testing.T) {
		h := enter(t, browser, program)
		h.scripts(false)
		h.visit(h.demo.URL)
		require.True(t, eval[bool](h.tab, `document.querySelector("#buy").hidden`))
		press := func(id, said string) {
			t.Helper()
			h.click("#" + id)
			h.wait(fmt.Sprintf(`document.readyState === "complete" && new RegExp(%q).test(document.querySelector("#said").textContent)`, said))
		}
		press("one", "^Admitted by instance [123]. 4 left.$")
		require.Equal(t, []string{"1"}, h.marked())
		press("twenty", "^Refused by instance [123]. The next passes in ")
		require.Equal(t, "5 admitted, at most 5 = L; 16 refused", h.counts()[0])
		press("one", "^Refused by instance")
		h.wait(`document.readyState === "complete" && document.title === "Refused"`)
		h.look("7-no-script")
		press("throw", "^The token is gone.")
		press("twenty", "^Refused by instance")
		require.Equal(t, []string{"5 admitted, at most 5 = L; 17 refused", "15 admitted, at most 15 = 3 · L; 5 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts())
		press("again", "^A new count begins")
		require.Equal(t, []string{"0 admitted, at most 5 = L; 0 refused", "0 admitted, at most 15 = 3 · L; 0 refused", "0 admitted, at most 30 = 3 · L · (1 + 1 bought); 0 refused"}, h.counts())
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
func (h hall) outline() (lines []string) {
	h.t.Helper()
	result, err := chromedp.Call(h.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(h.t, err)
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
