// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

const element = `document.querySelector("tally-check")`

// dear makes challenges that take a moment.
func dear(c *middleware.Config) { c.Challenge.Work = 1 << 21 }

// endless makes challenges that no test waits for.
func endless(c *middleware.Config) { c.Challenge.Work = 1 << 28 }

// TestHardships has the form on pages, and in browsers, that make it difficult. The page of each
// is named first, and what the site has otherwise.
func TestHardships(t *testing.T) {
	browser := launch(t)
	sends := func(_ *testing.T, _ *site, b *tab) { b.send("#send") }
	for name, test := range map[string]struct {
		page   string
		change func(*middleware.Config)
		f      func(*testing.T, *site, *tab)
	}{
		"a file arrives whole": {"/signup?file=1&enctype=multipart/form-data", nil, func(t *testing.T, s *site, b *tab) {
			body := make([]byte, 3<<20)
			_, _ = rand.Read(body)
			file := filepath.Join(t.TempDir(), "photo.bin")
			require.NoError(t, os.WriteFile(file, body, 0o600))
			b.do(chromedp.SetUploadFiles(chromedp.CSS("[type=file]"), []string{file}))
			b.send("#draft")
			sum := sha256.Sum256(body)
			require.Equal(t, map[string]string{"photo.bin": hex.EncodeToString(sum[:])}, s.got()[0].files)
			require.Equal(t, []string{"draft"}, s.got()[0].values["as"])
		}},
		"a new window": {"/signup?target=_blank", nil, func(t *testing.T, s *site, b *tab) {
			window := chromedp.WaitNewTarget(b.ctx, func(*target.Info) bool { return true })
			// Another click where one is not enough: on a busy machine the first may be
			// too long ago for a window, or the second too soon after it.
			for len(s.got()) == 0 {
				b.click("#send")
				sleep(b, 2)
			}
			require.NotEmpty(t, <-window)
			for posts := len(s.got()); len(s.got()) == posts; { // the page is still there, and works
				_, err := chromedp.Call(b.ctx, page.BringToFront, cdp.Empty{})
				require.NoError(t, err)
				b.click("#send")
				sleep(b, 2)
			}
		}},
		"a new window after a long time wants another click": {"/signup?target=_blank", nil, func(t *testing.T, s *site, b *tab) {
			b.run(`Object.defineProperty(navigator, "userActivation", { value: { isActive: false } })`)
			b.click("#send")
			b.wait(element + `.dataset.state === "done" && !` + element + `.querySelector("button").hidden`)
			require.Empty(t, s.got())
			b.click("#send") // goes through at once: it is checked already
			require.Eventually(t, func() bool { return len(s.got()) == 1 }, patience, 20*time.Millisecond)
			require.Len(t, b.loaded("/redeem"), 1)
		}},
		"back from the back/forward cache": {"/feedback", nil, func(t *testing.T, s *site, b *tab) {
			require.True(t, eval[bool](b, element+`.verify()`))
			b.elsewhere(s)
			require.Equal(t, "idle", eval[string](b, element+`.dataset.state`))
			b.send("#send")
			require.Len(t, s.got(), 1)
			require.Len(t, b.loaded("/redeem"), 2, "the first may have been used up meanwhile")
		}},
		"back into the middle of the work": {"/signup", func(c *middleware.Config) { c.Challenge.Work = 1 << 23 }, func(t *testing.T, s *site, b *tab) {
			b.run(`(window.working = new Set(), window.Worker = class extends Worker {
				constructor(...of) { super(...of); working.add(this); }
				terminate() { working.delete(this); super.terminate(); }
			})`)
			b.click("#send")
			b.wait(element + `.dataset.state === "working" && working.size > 0`)
			b.elsewhere(s)
			require.Equal(t, "idle", eval[string](b, element+`.dataset.state`))
			require.Zero(t, eval[int](b, `working.size`), "no worker goes on for a visitor that has left")
			require.Equal(t, "signup", eval[string](b, `document.title`))
			require.Empty(t, s.got())
			b.click("#send")
			b.wait(element + `.dataset.state === "working"`)
		}},
		"retry after the network failed": {"/signup", nil, func(t *testing.T, s *site, b *tab) {
			b.run(element + `.hidden = true`)
			s.breakDown(http.StatusBadGateway, "")
			b.click("#draft")
			b.wait(element + `.dataset.state === "error"`)
			require.Equal(t, "The site does not answer. Nothing was sent.", eval[string](b, element+`.querySelector("[role=status]").textContent`))
			require.False(t, eval[bool](b, element+`.hidden`), "a silent block")
			require.Empty(t, s.got())
			s.breakDown(0, "")
			b.click("tally-check button")
			b.wait(thanked)
			require.Equal(t, []string{"draft"}, s.got()[0].values["as"])
		}},
		"workers blocked": {"/signup?csp=" + url.QueryEscape("default-src 'self'; worker-src 'none'"), dear, sends},
		"trusted types":   {"/signup?csp=" + url.QueryEscape("default-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"), dear, sends},
		"isolated pages have workers": {"/signup?isolated=1", dear, func(t *testing.T, _ *site, b *tab) {
			require.True(t, eval[bool](b, "crossOriginIsolated"))
			b.run(`window.failed = 0`)
			b.run(`window.Worker = class extends Worker { constructor(...a) { super(...a); this.addEventListener("error", () => failed++); window.made = 1; } }`)
			require.True(t, eval[bool](b, element+`.verify()`))
			require.Equal(t, 1, eval[int](b, "made"))
			require.Equal(t, 0, eval[int](b, "failed"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, test.change)
			test.f(t, s, open(t, browser, s.URL+test.page))
			s.clean()
		})
	}
}

// TestNoJIT: where there is no JIT a proof takes longer, and is found.
func TestNoJIT(t *testing.T) {
	browser := launch(t, chromedp.Flag("js-flags", "--jitless"))
	s := newSite(t, func(c *middleware.Config) { c.Challenge.Work = 1 << 18 })
	s.hasTime("signup")
	b := open(t, browser, s.URL+"/signup")
	start := time.Now()
	b.send("#send")
	t.Logf("262144 expected hashes without a JIT: %v", time.Since(start).Round(time.Millisecond))
	s.clean()
}

// TestNoLongTask: no user feels the work, neither with workers nor without. A busy machine
// makes any task long, so the longest is held against all of the work, which without
// slices would be one task or, with one for each of the eight puzzles, an eighth. A machine that
// stands still for a moment makes one of those too, but not each time.
func TestNoLongTask(t *testing.T) {
	browser := launch(t)
	for name, csp := range map[string]string{"workers": strict, "none": "default-src 'self'; worker-src 'none'"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, dear)
			b := open(t, browser, s.URL+"/signup?csp="+url.QueryEscape(csp))
			var longest, took float64
			for range 3 {
				b.run(`window.long = []`)
				took = eval[float64](b, `(async () => {
					const start = performance.now();
					return await `+element+`.verify() ? performance.now() - start : -1;
				})()`)
				require.Positive(t, took)
				sleep(b, 1) // the observer hears of tasks after they have ended
				if longest = eval[float64](b, `Math.max(0, ...long)`); longest < took/10 {
					return
				}
				b.visit(s.URL + "/signup?csp=" + url.QueryEscape(csp))
			}
			require.Less(t, longest, took/10, "of %.0f ms, three times in a row", took)
		})
	}
}
