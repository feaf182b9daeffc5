// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"html/template"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/proof/kit"
)

// keepForms has refused forms kept. The form of /plain is sent to an address.
func keepForms(t *testing.T, to string) *site {
	s := newSite(t, func(c *middleware.Config) { c.PageHandler = keptform.Handler{} })
	var page strings.Builder
	require.NoError(t, plain.Execute(&page, to))
	s.mux.Handle("GET /plain", static("html", page.String()))
	return s
}

// speaking sends what a browser of a language sends.
func (b *tab) speaking(language string) {
	_, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": language}})
	require.NoError(b.t, err)
}

// scripts switches JavaScript of the pages on or off; evaluate works all the same.
func (b *tab) scripts(on bool) {
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
	require.NoError(b.t, err)
}

// refusedForm sends the plain form, and waits for the page that keeps it.
func (b *tab) refusedForm(s *site) {
	b.do(chromedp.Navigate(s.URL + "/plain"))
	b.click("#send")
	b.wait(`document.querySelector("input[type=password][required]") && document.readyState === "complete"`)
}

// TestKeptForm looks at the page as people get it: what it is called, what stands in it,
// where the focus is, and that it fits a narrow window.
func TestKeptForm(t *testing.T) {
	browser := launch(t)
	for language, want := range map[string]struct{ title, password, send, back, wait string }{
		"en": {"Not sent yet", "Password (please type it again)", "Send again", "Back without sending", "Try again in 5 seconds."},
		"de": {"Noch nicht gesendet", "Passwort (bitte noch einmal eingeben)", "Erneut senden", "Zurück, ohne zu senden", "Bitte in 5 Sekunden erneut senden."},
		"fr": {"Pas encore envoyé", "Mot de passe (à saisir de nouveau)", "Renvoyer", "Revenir sans envoyer", "Veuillez renvoyer dans 5 secondes."},
		"he": {"עדיין לא נשלח", "סיסמה (נא להקליד שוב)", "שליחה מחדש", "חזרה בלי לשלוח", "שלחו שוב בעוד 5 שניות."},
	} {
		for _, scripts := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, scripts %v", language, scripts), func(t *testing.T) {
				s := keepForms(t, "signup")
				b := open(t, browser, s.URL+"/elsewhere")
				b.speaking(language)
				b.screen(320, 640)
				b.scripts(scripts)
				b.refusedForm(s)
				require.Equal(t, want.title+" – 127.0.0.1", eval[string](b, "document.title"))
				require.Equal(t, language, eval[string](b, "document.documentElement.lang"))
				const fromTheRight = `(({ x, right }) => x > innerWidth - right)(document.querySelector("form button:not([type=button])").getBoundingClientRect())`
				require.Equal(t, language == "he", eval[bool](b, fromTheRight))
				require.Equal(t, "password", eval[string](b, `document.activeElement.name ?? ""`), "the focus is on what is wanted")
				require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 320)
				require.Equal(t, !scripts, eval[bool](b, fmt.Sprintf("document.body.innerText.includes(%q)", want.wait)))
				require.Equal(t, "544px", eval[string](b, `getComputedStyle(document.querySelector("main")).maxInlineSize`), "it has a style")

				outline := b.outline()
				for role, name := range map[string]string{"heading": want.title, "textbox": want.password, "button": want.send, "link": want.back} {
					require.Contains(t, outline, fmt.Sprintf("%s %q", role, name))
				}
				s.clean()
			})
		}
	}
	t.Run("without scripts, to the end", func(t *testing.T) {
		s := keepForms(t, "signup")
		b := open(t, browser, s.URL+"/elsewhere")
		b.scripts(false)
		b.refusedForm(s)
		b.fill("[type=password]", "secret")
		b.click("button")
		b.wait(`document.querySelector("[type=password]")?.value === ""`)
		require.Empty(t, s.got(), "too early: what is written is there still")
		opensRooms()
		b.fill("[type=password]", "secret")
		b.click("button")
		b.wait(thanked)
		require.Equal(t, []string{"a & b", "twice"}, s.got()[0].values["message"])
		require.Equal(t, []string{"secret"}, s.got()[0].values["password"])
	})
}

// TestTwoTabs has two pages of an EveryRequest form checked before either is sent.
func TestTwoTabs(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	b := open(t, browser, s.URL+"/feedback")
	require.True(t, eval[bool](b, element+`.verify()`))
	// A second page of the same profile, within the first: it has its cookies.
	b.run(`new Promise((done) => {
		const frame = document.createElement("iframe");
		frame.src = "/feedback";
		frame.onload = done;
		document.body.append(frame);
	})`)
	const inner = `document.querySelector("iframe").contentDocument`
	b.wait(inner + `.querySelector("tally-check")?.dataset.state === "idle"`)
	require.True(t, eval[bool](b, inner+`.querySelector("tally-check").verify()`))
	require.Len(t, b.loaded("/redeem"), 2)
	b.run(inner + `.querySelector("#send").click()`)
	b.wait(inner + `.querySelector("#thanks")`)
	b.click("#send")
	b.wait(thanked)
	require.Len(t, s.got(), 2)
	require.Len(t, b.loaded("/redeem"), 2, "no proof was lost")
	cookies := kit.Must(chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{}))(t)
	for _, c := range cookies.Cookies {
		require.NotContains(t, c.Name, ".proof.", "what is spent is taken away")
	}
	s.clean()
}

var plain = template.Must(template.New("plain").Parse(`<!doctype html><title>plain</title>
<form method="post" action="/{{.}}?from=plain">
<input name="message" value="a &amp; b"><input name="message" value="twice"><input name="password" type="password" value="secret">
<button id="send" name="as" value="draft">Send</button>
</form>`))

// TestKeptFormIsSentOn refuses forms that know nothing of work. The page in between
// keeps what was written, works, and sends it on.
func TestKeptFormIsSentOn(t *testing.T) {
	browser := launch(t)
	for policy, visits := range map[string]int{"signup": 1, "contact": 3, "feedback": 1} {
		t.Run(policy, func(t *testing.T) {
			s := keepForms(t, policy)
			var b *tab
			for n := range visits {
				if b == nil {
					b = open(t, browser, s.URL+"/plain")
				} else {
					b.visit(s.URL + "/plain")
				}
				b.click("#send")
				if n < visits-1 {
					b.wait(thanked) // the shared tally has some
				}
			}
			b.wait(`document.title.startsWith("Not sent yet") && ` + element + `?.dataset.state === "idle"`)
			require.Equal(t, "", eval[string](b, `document.querySelector("[type=password]").value`), "asked for again")
			require.NotContains(t, eval[string](b, "document.documentElement.outerHTML"), "secret\"")
			b.fill("[type=password]", "secret")
			b.click("form button:not([type=button])")
			b.wait(thanked)
			last := s.got()[len(s.got())-1]
			require.Equal(t, fmt.Sprintf("/%s?from=plain", policy), last.path)
			require.Equal(t, []string{"a & b", "twice"}, last.values["message"])
			require.Equal(t, []string{"secret"}, last.values["password"])
			require.Equal(t, []string{"draft"}, last.values["as"])
			require.Len(t, b.loaded("/redeem"), 1)
			s.clean()
		})
	}
}
