// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

// atWork returns a sign-up that is about to be sent.
func atWork(t *testing.T, browser context.Context) (*site, *tab) {
	t.Helper()
	s := newSite(t, dear)
	b := open(t, browser, s.URL+"/signup")
	b.reach("working")
	return s, b
}

// TestMovedForm: scripts that bring a page up to date take elements out and put them in again. What
// was sent goes on, unless it is really gone.
func TestMovedForm(t *testing.T) {
	browser := launch(t)
	for name, move := range map[string]string{
		"the form":              `document.body.append(document.forms[0])`,
		"the form, by move":     `document.body.moveBefore?.(document.forms[0], null)`,
		"the element":           `document.forms[0].append(` + element + `)`,
		"the element, by move":  `document.forms[0].moveBefore?.(` + element + `, null)`,
		"the element, out of a": `document.forms[0].append(document.createElement("p")), document.forms[0].lastChild.append(` + element + `)`,
	} {
		t.Run(name, func(t *testing.T) {
			s, b := atWork(t, browser)
			b.run(`(` + move + `, 0)`)
			b.wait(thanked)
			require.Len(t, s.got(), 1)
			require.Len(t, b.loaded("/redeem"), 1)
			s.clean()
		})
	}
	t.Run("to another form", func(t *testing.T) {
		s, b := atWork(t, browser)
		b.run(`(document.body.append(window.other = document.createElement("form")), other.append(` + element + `))`)
		b.wait(element + `.dataset.state === "done"`)
		require.Empty(t, s.got(), "no visitor has sent that one")
	})
}

// TestPriceRisen: neighbours buy meanwhile. The visitor is told why it begins again, and what was
// done in the end has no reason.
func TestPriceRisen(t *testing.T) {
	browser := launch(t)
	s := newSite(t, func(c *middleware.Config) { c.Challenge.Crowd = 1 })
	neighbours := middlewaretest.Browser(s.mux, "127.0.0.1")
	others := 1
	s.redeeming = func() {
		if others--; others == 0 {
			neighbours.Jar = nil // or what was bought is good for the next
			middlewaretest.Buy(t, neighbours, "https://example.com/tally/signup/")
		}
	}
	b := open(t, browser, s.URL+"/signup")
	b.run(`(() => {
		sessionStorage.said = sessionStorage.details = "";
		addEventListener("tally-state", (e) => { sessionStorage.details += JSON.stringify(e.detail) + "\n"; });
		new MutationObserver(() => { sessionStorage.said += ` + element + `.querySelector("[role=status]").textContent + "\n"; })
			.observe(` + element + `, { subtree: true, childList: true, characterData: true });
	})()`)
	b.send("#send")
	require.Contains(t, eval[string](b, `sessionStorage.said`), "Others on your network are being checked too. One more check…\n")
	details := eval[string](b, `sessionStorage.details`)
	require.Contains(t, details, `{"state":"done",`)
	require.NotContains(t, details, "reason")
	require.Len(t, b.loaded("/redeem"), 2)
}

// TestLanguages: a sentence is in one language, with the time in it.
func TestLanguages(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct{ lang, text, want string }{
		"known":                {"de", "", "Neuer Versuch in 15 Minuten."},
		"unknown":              {"fi", "", "Try again in 15 minutes."},
		"from right to left":   {"ar", "", "Try again in 15 minutes."},
		"Hebrew":               {"he-IL", "", "נסו שוב בעוד 15 דקות."},
		"Hebrew, as it was":    {"iw", "", "נסו שוב בעוד 15 דקות."},
		"three plurals":        {"ru", "", "Повторите попытку через 15 минут."},
		"no language":          {"constructor", "", "Try again in 15 minutes."},
		"a text of the page's": {"pl", "Spróbuj ponownie {}.", "Spróbuj ponownie za 15 minut."},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, noRoom)
			b := open(t, browser, s.URL+"/signup?lang="+test.lang)
			if test.text != "" {
				b.run(element + `.setAttribute("text-later", "` + test.text + `")`)
			}
			s.breakDown(http.StatusTooManyRequests, "900")
			b.reach("error")
			require.Equal(t, test.want, eval[string](b, element+`.querySelector("[role=timer]").textContent`))
			// This page has no direction, so an element that knows its language by another name says both.
			want := map[string]string{"fi": "ltr", "ar": "ltr", "constructor": "ltr", "iw": "rtl"}[test.lang]
			require.Equal(t, want, eval[string](b, element+`.querySelector("[role=timer]").dir`))
		})
	}
	t.Run("one file", func(t *testing.T) {
		s := newSite(t, noRoom)
		b := open(t, browser, s.URL+"/signup?lang=de-AT")
		require.Len(t, b.loaded("/texts-"), 1)
		require.Len(t, b.loaded("/texts-de.js"), 1)
		b.visit(s.URL + "/signup?lang=fi")
		b.visit(s.URL + "/signup?lang=en")
		require.Len(t, b.loaded("/texts-"), 1, "others speak English")

		// The page changes its language.
		s.breakDown(http.StatusTooManyRequests, "900")
		b.run(`(document.documentElement.lang = "fr")`)
		b.reach("error")
		b.wait(element + `.textContent.includes("Trop de demandes.")`)
		require.Len(t, b.loaded("/texts-fr.js"), 1)
		s.clean()
	})
	// What is said before the texts are here is said in English, and then once more: each part of the element.
	t.Run("late", func(t *testing.T) {
		s := newSite(t, noRoom)
		come := make(chan struct{})
		endpoints := s.limits["signup"].Endpoints()
		s.mux.HandleFunc("GET /tally/signup/{version}/texts-de.js", func(w http.ResponseWriter, r *http.Request) {
			<-come
			endpoints.ServeHTTP(w, r)
		})
		b := open(t, browser, s.URL+"/signup?lang=de")
		s.breakDown(http.StatusForbidden, "")
		b.reach("error")
		parts := `[":scope > span > span", "button", "progress"].map((part) => {
			const node = ` + element + `.querySelector(part);
			return (node.getAttribute("aria-label") ?? node.textContent) + " " + node.lang;
		})`
		require.Equal(t, []string{"The site refuses this request. Nothing was sent. ", "Send again en", "Checking… en"}, eval[[]string](b, parts))
		close(come)
		b.wait(element + `.textContent.includes("Die Website")`)
		require.Equal(t, []string{"Die Website lehnt diese Anfrage ab. Nichts gesendet. ", "Erneut senden ", "Prüfung läuft… "}, eval[[]string](b, parts))
	})
}

// TestElementBesideOldAndNew: what it says of itself is in attributes, which all browsers know; its
// button is not one of the page's; and progress is shown once a frame.
func TestElementBesideOldAndNew(t *testing.T) {
	browser := launch(t)
	s := newSite(t, dear)
	b := open(t, browser, s.URL+"/signup")
	require.Equal(t, []string{"status", "timer", "Checking…"}, eval[[]string](b, `(() => {
		for (const name of ["role", "ariaLive", "ariaLabel"]) delete Element.prototype[name];
		const e = document.createElement("tally-check");
		e.setAttribute("text-idle", "Ready.");
		document.body.append(e);
		const found = [...e.querySelectorAll("[role], [aria-label]")].map((n) => n.getAttribute("role") ?? n.getAttribute("aria-label"));
		e.remove();
		return found;
	})()`))
	b.click("[name=message]")
	require.Equal(t, []string{"rgba(0, 0, 0, 0)", "rgb(1, 2, 3)"}, eval[[]string](b, `(() => {
		const sheet = new CSSStyleSheet();
		sheet.replaceSync("body { color: rgb(1, 2, 3) } button { background: brown; color: white }");
		document.adoptedStyleSheets = [sheet];
		const { backgroundColor, color } = getComputedStyle(`+element+`.querySelector("button"));
		return [backgroundColor, color];
	})()`))
	b.run(`(() => {
		let frame = 0;
		window.shown = [];
		(function next() { frame++; requestAnimationFrame(next); })();
		addEventListener("tally-progress", () => shown.push(frame));
	})()`)
	require.True(t, eval[bool](b, element+`.verify()`))
	shown := eval[[]int](b, "shown")
	require.NotEmpty(t, shown)
	for i := range shown[1:] {
		require.Less(t, shown[i], shown[i+1], "%d", shown)
	}
}
