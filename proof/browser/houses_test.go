// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// before has each page that the tab opens run a script before its own.
func (b *tab) before(script string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, cdp.AddScriptToEvaluateOnNewDocument, cdp.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(b.t, err)
}

// words is what the element says.
const words = element + `.querySelector("[role=status]")?.textContent`

// TestPublicNames: frameworks assign what is in an element. Each name that has a value takes one, and shows it as an
// attribute; and a value from before the element was defined is not lost.
func TestPublicNames(t *testing.T) {
	s := newSite(t)
	b := open(t, launch(t), s.URL+"/signup")
	require.Equal(t, []string{"form id", "endpoint /x/", "auto off", "cost 3", "max-work 5", "disabled "}, eval[[]string](b, `(() => {
		const values = { form: "id", endpoint: "/x/", auto: "off", cost: 3, maxWork: 5, disabled: true };
		const type = customElements.get("tally-check"), all = Object.getOwnPropertyDescriptors(type.prototype);
		return Object.keys(all).filter((name) => "get" in all[name]).map((name) => {
			const e = document.createElement("tally-check");
			e[name] = values[name];
			const found = [...e.attributes].map((a) => a.name + " " + a.value).join();
			for (const nothing of [null, undefined, "", false]) {
				if (nothing === false && name !== "disabled") continue;
				e[name] = values[name];
				e[name] = nothing;
				if (e.attributes.length) return name + " stays";
			}
			return found;
		});
	})()`))
	b.visit(s.URL + "/elsewhere")
	require.Equal(t, "/tally/signup/", eval[string](b, `(async () => {
		const e = document.createElement("tally-check");
		e.endpoint = "/tally/signup/";
		document.body.append(e);
		await import("`+s.limits["signup"].ScriptURL()+`");
		return e.getAttribute("endpoint");
	})()`))
}

// TestNoEndpoint: the developer hears of it at once, the visitor before the form is filled in, and no form
// slips through.
func TestNoEndpoint(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	b := open(t, browser, s.URL+"/elsewhere")
	b.before(`window.errors = []; console.error = (...of) => errors.push(of.join(" "));
		addEventListener("DOMContentLoaded", () => document.querySelector("tally-check")?.removeAttribute("endpoint"), true);`)
	b.do(chromedp.Navigate(s.URL + "/signup?lang=de"))
	b.wait(element + `?.dataset.state === "error"`)
	require.Equal(t, "Diese Website ist falsch eingerichtet. Bitte sagen Sie es dem Betreiber.", eval[string](b, words))
	require.Equal(t, "setup", eval[string](b, element+`.dataset.reason`))
	require.Contains(t, strings.Join(eval[[]string](b, `errors`), "\n"), "<tally-check> needs an endpoint")
	b.click("#send")
	b.wait(words + `.endsWith("Nichts gesendet.")`)
	require.Equal(t, "error", eval[string](b, element+`.dataset.state`))
	require.True(t, eval[bool](b, element+`.querySelector("button").hidden`), "once more would be in vain")
	require.Empty(t, s.got())
	b.run(element + `.endpoint = "/tally/signup/"`)
	require.Equal(t, "idle", eval[string](b, element+`.dataset.state`))
	b.send("#send")
	require.Len(t, s.got(), 1)
}

// oldSafari takes away what Safari before 16 has not.
const oldSafari = `
	const { define } = customElements;
	customElements.define = function (name, type, ...more) {
		delete type.formAssociated;
		return define.call(this, name, type, ...more);
	};
	delete HTMLFormElement.prototype.requestSubmit;
	delete HTMLElement.prototype.attachInternals;
	delete Document.prototype.adoptedStyleSheets;
	delete ShadowRoot.prototype.adoptedStyleSheets;
`

// TestWithoutFormAssociation: the element finds its form itself, wherever it is moved, and submits it as its user did.
func TestWithoutFormAssociation(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct {
		do   string // to the page
		sent bool   // with a proof
	}{
		"in the form":               {"0", true},
		"moved":                     {`document.forms[0].append(` + element + `)`, true},
		"of a form by its id":       {`(document.forms[0].id = "f", ` + element + `.form = "f", document.body.append(` + element + `))`, true},
		"in a fieldset that is off": {`(document.forms[0].append(window.set = document.createElement("fieldset")), set.disabled = true, set.append(` + element + `))`, false},
		"taken out":                 {element + `.remove()`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			b := open(t, browser, s.URL+"/elsewhere")
			b.before(oldSafari)
			b.visit(s.URL + "/signup")
			b.run(test.do)
			b.click("#draft")
			if !test.sent {
				b.wait(`document.title.startsWith("Not sent yet")`)
				return
			}
			b.wait(thanked)
			require.Len(t, s.got(), 1)
			require.Equal(t, []string{"draft"}, s.got()[0].values["as"])
			require.Equal(t, "/signup?draft", s.got()[0].path)
			s.clean()
		})
	}
	t.Run("a page opens", func(t *testing.T) {
		s := newWiki(t)
		b := open(t, browser, s.URL+"/elsewhere")
		b.before(oldSafari + `delete AbortSignal.timeout;`)
		b.do(chromedp.Navigate(s.URL + "/wiki/one"))
		b.wait(opened)
		require.Len(t, b.loaded("/redeem"), 1)
		s.clean()
	})
	t.Run("reset", func(t *testing.T) {
		s := newSite(t, endless)
		b := open(t, browser, s.URL+"/elsewhere")
		b.before(oldSafari)
		b.visit(s.URL + "/signup")
		b.reach("working")
		b.click("#reset")
		b.wait(element + `.dataset.state === "idle"`)
	})
}

// TestSilentWorkers: what an extension puts in the place of Worker may neither start nor fail. The page's own thread
// then does the work; a worker that was only late shares it.
func TestSilentWorkers(t *testing.T) {
	browser := launch(t)
	t.Run("for ever", func(t *testing.T) {
		s := newSite(t, dear)
		b := open(t, browser, s.URL+"/elsewhere")
		b.before(`window.Worker = class extends EventTarget { postMessage() {} terminate() {} }`)
		b.visit(s.URL + "/signup")
		b.send("#send")
		require.Len(t, b.loaded("/redeem"), 1)
		s.clean()
	})
	t.Run("late", func(t *testing.T) {
		s := newSite(t, func(c *middleware.Config) { c.Challenge.Work = 1 << 22 })
		s.hasTime("signup")
		b := open(t, browser, s.URL+"/signup")
		b.module()
		require.Regexp(t, `^[1-9]\d* of 8 by workers$`, eval[string](b, `(async () => {
			const real = new Worker(new URL("solver.js", document.querySelector("[type=module]").src), { type: "module", name: "tallystick-solver" });
			await new Promise((ready) => { real.onmessage = ready; });
			window.Worker = function () { return real; };
			const answers = new Set();
			real.addEventListener("message", ({ data: { i, n } }) => n !== undefined && answers.add(i));
			const { challenge } = await (await fetch("/tally/signup/challenge")).json();
			let late = true;
			const proof = await solve(challenge, { workers: 1, onprogress() {
				if (late) late = real.onmessage({ data: {} }); // only now it speaks
			} });
			return answers.size + " of " + proof.split("~")[1].split(".").length + " by workers";
		})()`))
	})
}

// heldUp returns a sign-up that is about to be sent, and what lets it go.
func heldUp(t *testing.T, browser context.Context) (*site, *tab, func()) {
	t.Helper()
	s := newSite(t)
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	s.redeeming = func() { <-gate }
	b := open(t, browser, s.URL+"/signup")
	b.reach("working")
	return s, b, release
}

// TestTakenOut: a script takes the element out while it holds a submission. The form is busy no more. Where the
// element comes back, or another one in its place, the submission goes on; later the visitor is told.
func TestTakenOut(t *testing.T) {
	browser := launch(t)
	busy := `document.querySelector("form").hasAttribute("aria-busy")`
	const renew = `(() => {
		const e = document.createElement("tally-check");
		e.setAttribute("endpoint", "/tally/signup/");
		form.append(e);
	})()`
	for name, test := range map[string]struct{ out, back string }{
		"the element":             {`check.remove()`, `form.append(check)`},
		"the form":                {`form.remove()`, `document.body.append(form)`},
		"another element instead": {`check.remove()`, renew},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", late: ", late), func(t *testing.T) {
				s, b, release := heldUp(t, browser)
				b.run(`(window.form = document.forms[0], window.check = ` + element + `, window.now = Date.now(), Date.now = () => now)`)
				b.click("#draft") // the last button is meant
				b.run(`(` + test.out + `, 0)`)
				require.False(t, eval[bool](b, `form.hasAttribute("aria-busy")`))
				if late {
					b.run(`(now += 11e3)`)
				}
				b.run(`(` + test.back + `, 0)`)
				if late {
					b.wait(element + `.dataset.state === "error"`)
					require.Equal(t, "The check failed. Nothing was sent.", eval[string](b, words))
					require.False(t, eval[bool](b, busy))
					require.Empty(t, s.got())
				}
				release()
				if late {
					b.click("tally-check button")
				}
				b.wait(thanked)
				require.Len(t, s.got(), 1)
				require.Equal(t, []string{"draft"}, s.got()[0].values["as"])
				require.Equal(t, "/signup?draft", s.got()[0].path)
				s.clean()
			})
		}
	}
	t.Run("and the form is sent without it", func(t *testing.T) {
		s, b, release := heldUp(t, browser)
		b.run(`(window.form = document.forms[0], window.check = ` + element + `, form.addEventListener("submit", (e) => e.preventDefault()), check.remove())`)
		b.click("#send")
		release()
		b.run(`form.append(check)`)
		require.Equal(t, "idle", eval[string](b, element+`.dataset.state`))
		require.Empty(t, s.got())
	})
}

// TestForeignWords: words of another language than the page's say so, and run their own way.
func TestForeignWords(t *testing.T) {
	browser := launch(t)
	marks := func(b *tab) []string {
		return eval[[]string](b, `[":scope > span", "[role=status] > span", "[role=timer]", "button", "progress"].map((part) => {
			const node = `+element+`.querySelector(part);
			return node.lang + " " + node.dir + " " + getComputedStyle(node).direction;
		})`)
	}
	for name, test := range map[string]struct {
		page, text string
		want       []string
	}{
		"the page's own":       {"lang=de", "", []string{"  ltr", "  ltr", "  ltr", "  ltr", "  ltr"}},
		"English in an Arabic": {"lang=ar", "", []string{"en ltr ltr", "en ltr ltr", "en ltr ltr", "en ltr ltr", "en ltr ltr"}},
		"a text of the page's": {"lang=ar", "working", []string{"ar rtl rtl", "ar rtl rtl", "en ltr ltr", "en ltr ltr", "ar rtl rtl"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, endless)
			s.hasTime("signup")
			b := open(t, browser, s.URL+"/signup?"+test.page)
			if strings.Contains(test.page, "ar") {
				b.run(`(document.documentElement.dir = "rtl")`)
			}
			if test.text != "" {
				b.run(element + `.setAttribute("text-` + test.text + `", "جارٍ التحقق…")`)
			}
			b.click("#send")
			b.wait(element + `.querySelector("[role=timer]").textContent`)
			require.Equal(t, test.want, marks(b))
		})
	}
}

// TestShadowRoot: no sheet of the page reaches into a shadow root. There the element brings the page's own rules for
// it, without another request, or else its file; under a strict policy.
func TestShadowRoot(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct {
		before, do string
		files      int
	}{
		"as on the page": {"", "0", 1},
		"by its file":    {"", `document.querySelector("link").remove()`, 2},
		"in old Safari":  {oldSafari, "0", 2},
		"it has a style": {"", `(window.css = "tally-check { display: flex; max-inline-size: 40em }")`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			b := open(t, browser, s.URL+"/elsewhere")
			b.before(test.before)
			b.visit(s.URL + "/signup")
			b.run(test.do)
			b.run(`(() => {
				const form = document.forms[0], root = document.body.appendChild(document.createElement("div")).attachShadow({ mode: "open" });
				if (window.css) {
					const sheet = new CSSStyleSheet();
					sheet.replaceSync(css);
					root.adoptedStyleSheets = [sheet];
				}
				root.append(form);
				window.check = form.querySelector("tally-check");
			})()`)
			b.wait(`getComputedStyle(check).display === "flex" && getComputedStyle(check).maxInlineSize !== "none"`)
			b.run(`check.verify()`)
			require.Equal(t, "done", eval[string](b, `check.dataset.state`))
			require.LessOrEqual(t, len(b.loaded("tally.css")), test.files)
			s.clean()
		})
	}
}

// TestFrameWithoutCookies: a sandboxed frame keeps no cookie, and no visitor can allow any. What can be done is said,
// and said before the form is filled in.
func TestFrameWithoutCookies(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	s.mux.Handle("GET /host", static("html", `<!doctype html><title>host</title><script src="/host.js"></script>
<iframe sandbox="allow-scripts allow-forms" src="/framed" width="600" height="400"></iframe>`))
	s.mux.Handle("GET /host.js", static("javascript", `window.said = []; addEventListener("message", ({ data }) => said.push(data));`))
	s.mux.Handle("GET /tell.js", static("javascript", `addEventListener("tally-state", ({ target, detail: { state } }) => {
			if (state !== "error") return;
			parent.postMessage(target.querySelector("[role=status]").textContent, "*");
			if (!location.search) setTimeout(() => document.querySelector("button").click());
		});
		if (location.search) addEventListener("load", () => document.querySelector("button").click());`))
	s.mux.Handle("GET /framed", static("html", fmt.Sprintf(`<!doctype html><html lang="en"><title>framed</title><script src="/tell.js"></script><script type="module" src=%q></script>
<form method="post" action="/signup"><input name="message" value="framed"><button id="send">Send</button><tally-check endpoint="/tally/signup/"></tally-check></form>`, s.limits["signup"].ScriptURL())))
	b := open(t, browser, s.URL+"/host")
	b.wait(`said.length > 1`)
	const frame = "This frame keeps no cookies. Please open the page in its own window."
	require.Equal(t, []string{frame, frame + " Nothing was sent."}, eval[[]string](b, `said.slice(0, 2)`))
	require.Empty(t, s.got())
	require.Empty(t, b.loaded("/challenge"), "nothing that cannot help")
	// Another site's page has frames with an origin, and browsers send them no cookie.
	s.mux.Handle("GET /other", static("html", `<!doctype html><title>host</title><script src="/host.js"></script><iframe src="`+s.URL+`/framed?press" width="600" height="400"></iframe>`))
	b = open(t, browser, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/other?csp=default-src%20*")
	b.wait(`said.length > 0`)
	require.Equal(t, []string{frame + " Nothing was sent."}, eval[[]string](b, `said`))
	require.Empty(t, s.got())
	s.clean()
}
