// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const thanked = `document.title === "thanks"`

// send submits the form that is shown and waits for the answer.
func (b *tab) send(button string) {
	b.t.Helper()
	b.click(button)
	b.wait(thanked)
}

// TestForms has forms sent in every way. The page of each is named first.
func TestForms(t *testing.T) {
	browser := launch(t)
	double := func(t *testing.T, s *site, b *tab) {
		b.do(chromedp.DoubleClick(chromedp.CSS("#send")))
		b.wait(thanked)
		b.visit(s.URL + "/elsewhere") // no page is left that could send
		s.Close()                     // all that was sent is answered
		require.Len(t, s.got(), 1)
		require.LessOrEqual(t, len(b.loaded("/redeem")), 1)
	}
	for name, test := range map[string]struct {
		page string
		f    func(*testing.T, *site, *tab)
	}{
		"sign-up proves once": {"/signup", func(t *testing.T, s *site, b *tab) {
			b.send("#send")
			require.Len(t, b.loaded("POST "+s.URL+"/tally/signup/redeem"), 1)
			b.visit(s.URL + "/signup")
			b.send("#send")
			require.Len(t, b.loaded("/redeem"), 1, "its tally has one left")
			b.visit(s.URL + "/signup")
			b.send("#send")
			require.Len(t, b.loaded("/redeem"), 2, "the first is used up")
			require.Len(t, s.got(), 3)
			for _, p := range s.got() {
				require.True(t, p.own)
				require.Equal(t, []string{"hello"}, p.values["message"])
				require.Len(t, p.values, 1, "no field but the form's")
			}
			for _, r := range b.loaded("") {
				require.Contains(t, r, " "+s.URL+"/", "nothing from elsewhere")
			}
		}},
		"contact buys when the shared tally is used up": {"/contact", func(t *testing.T, s *site, b *tab) {
			for i, bought := range []int{0, 0, 1, 1, 2} {
				b.visit(s.URL + "/contact")
				b.send("#send")
				require.Len(t, b.loaded("/redeem"), bought)
				require.Equal(t, bought > 0, s.got()[i].own)
			}
		}},
		"feedback proves each time": {"/feedback", func(t *testing.T, s *site, b *tab) {
			b.send("#send")
			b.visit(s.URL + "/feedback")
			b.send("#send")
			require.Len(t, b.loaded("/redeem"), 2)
			require.Len(t, s.got(), 2)
		}},
		"Enter submits": {"/signup", func(t *testing.T, s *site, b *tab) {
			b.fill("[name=message]", " there\r")
			b.wait(thanked)
			require.Equal(t, []string{" therehello"}, s.got()[0].values["message"])
		}},
		"a double click posts once, at sign-up": {"/signup", double},
		"a double click posts once, at contact": {"/contact", double},
		"fields with the names of the form's own": {"/signup?shadow=1", func(t *testing.T, s *site, b *tab) {
			b.send("#draft")
			require.Equal(t, []string{"1"}, s.got()[0].values["submit"])
			require.Equal(t, []string{"draft"}, s.got()[0].values["as"])
			require.Equal(t, "/signup?draft", s.got()[0].path)
		}},
		"begins with the focus": {"/signup?auto=focus", func(t *testing.T, _ *site, b *tab) {
			b.click("[name=message]")
			b.wait(`document.querySelector("tally-check").dataset.state === "done"`)
			require.Len(t, b.loaded("/redeem"), 1)
			b.send("#send")
			require.Len(t, b.loaded("/redeem"), 1)
			require.Len(t, b.loaded("/challenge"), 1, "before the purchase, and not after it: a cookie has come with the proof")
		}},
		"off leaves it to verify": {"/signup?auto=off", func(t *testing.T, s *site, b *tab) {
			b.click("#send")
			b.wait(`document.title.startsWith("Not sent yet")`)
			b.visit(s.URL + "/signup?auto=off")
			require.True(t, eval[bool](b, `document.querySelector("tally-check").verify()`))
			require.Equal(t, []string{"idle", "working", "done"}, eval[[]string](b, "seen"))
			b.send("#send")
		}},
		"the form's reset": {"/signup", func(t *testing.T, _ *site, b *tab) {
			require.True(t, eval[bool](b, `document.querySelector("tally-check").verify()`))
			b.click("#reset")
			b.wait(`document.querySelector("tally-check").dataset.state === "idle"`)
			b.send("#send")
		}},
		"disabled does nothing": {"/contact", func(t *testing.T, _ *site, b *tab) {
			b.run(`document.querySelector("tally-check").toggleAttribute("disabled")`)
			b.send("#send")
			require.Empty(t, b.loaded("/challenge"))
		}},
		"two checks in one form": {"/signup", func(t *testing.T, s *site, b *tab) {
			b.run(`document.querySelector("form").append(Object.assign(document.createElement("tally-check"), {id: "second"}))`)
			b.run(`document.querySelector("#second").setAttribute("endpoint", "/tally/feedback/")`)
			b.send("#send")
			require.Len(t, b.loaded("/redeem"), 2)
			require.Len(t, s.got(), 1)
		}},
		"a listener that sends by itself sees one submission": {"/feedback", func(t *testing.T, s *site, b *tab) {
			b.run(`document.querySelector("form").addEventListener("submit", (e) => {
				e.preventDefault();
				fetch(e.target.action, { method: "POST", body: new FormData(e.target, e.submitter) }).then((r) => { document.title += r.status; });
			})`)
			b.click("#send")
			b.wait(`document.title === "feedback200"`)
			b.click("#send")
			b.wait(`document.title === "feedback200200"`)
			require.Len(t, s.got(), 2)
			require.Len(t, b.loaded("/redeem"), 2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			test.f(t, s, open(t, browser, s.URL+test.page))
			s.clean()
		})
	}
}
