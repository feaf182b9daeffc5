// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/proof/kit"
)

// A wiki is a site whose pages are refused by GET to a client that has not worked.
type wiki struct {
	*site
	limit  *middleware.Middleware
	served atomic.Int64 // pages

	answers map[string]string      // by path: the last status, and type
	lost    func(path string) bool // which requests lose their cookies
}

// drop has requests lose their cookies, as by a proxy or an add-on.
func (s *wiki) drop(lost func(path string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
}

// answered returns how requests below /wiki/ were answered.
func (s *wiki) answered() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.answers)
}

// between is what stands before the limiter.
func (s *wiki) between(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		if s.lost != nil && s.lost(r.URL.Path) {
			r.Header.Del("Cookie")
		}
		s.mu.Unlock()
		status := &noting{ResponseWriter: w}
		next.ServeHTTP(status, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers[r.URL.Path] = fmt.Sprint(status.code, " ", w.Header().Get("Content-Type"))
	}
}

// noting notes the status.
type noting struct {
	http.ResponseWriter
	code int
}

func (n *noting) WriteHeader(code int) {
	n.code = code
	n.ResponseWriter.WriteHeader(code)
}

// newWiki limits all below /wiki/, style sheets, images and data too.
func newWiki(t *testing.T, change ...func(*middleware.Config)) *wiki {
	t.Helper()
	limit := newLimit(t, "wiki", 20, append([]func(*middleware.Config){func(c *middleware.Config) {
		c.Challenge = &middleware.Challenge{Mode: middleware.Newcomers, Work: work, Path: "/tally/wiki/"}
	}}, change...)...)
	s := &wiki{site: newSite(t), limit: limit, answers: map[string]string{}}
	s.mux.Handle("/tally/wiki/", s.between(limit.Endpoints()))
	s.mux.Handle("GET /wiki/", s.between(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>A page</title><h1 id="page">%s</h1>%s<h2 id="part">A part</h2>`, r.URL.Path, strings.Repeat("<br>", 200))
	}))))
	return s
}

// opened is true in the page that was asked for.
const opened = `document.querySelector("#page") && document.readyState === "complete"`

// TestPageOpens goes by GET from the first visit to the page itself: the same URL, with query
// and fragment, in the same place of the history, after one purchase, under the site's policy.
func TestPageOpens(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct {
		change func(*middleware.Config)
		before int  // pages that are served before
		apart  bool // each to another address
	}{
		"Newcomers":     {nil, 0, false},
		"keptform":      {func(c *middleware.Config) { c.PageHandler = keptform.Handler{Title: "A wiki"} }, 0, false},
		"WhenExhausted": {func(c *middleware.Config) { c.Challenge.Mode, c.Limits[0].Quota = middleware.WhenExhausted, 2 }, 2, false},
		"WhenBusy": {func(c *middleware.Config) {
			c.Challenge.Mode, c.Challenge.BusyPerSecond = middleware.WhenBusy, 2
		}, 50, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWiki(t, test.change)
			for n := range test.before {
				client := s.Client()
				if test.apart {
					there := client.Transport.(*http.Transport).Clone()
					there.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}).DialContext
					there.DisableKeepAlives = true
					client = &http.Client{Transport: there}
				}
				resp := kit.Must(client.Get(s.URL + "/wiki/before"))(t)
				require.NoError(t, resp.Body.Close())
			}
			b := open(t, browser, s.URL+"/elsewhere")
			began := eval[int](b, "history.length")
			b.do(chromedp.Navigate(s.URL + "/wiki/Ada?action=view#part"))
			b.wait(opened)
			require.Equal(t, "/wiki/Ada?action=view#part", eval[string](b, "location.pathname + location.search + location.hash"))
			b.wait("scrollY > 0") // at the fragment
			require.Equal(t, began+1, eval[int](b, "history.length"))
			require.Len(t, b.loaded("/redeem"), 1)
			b.leave("history.back()")
			b.wait(`document.title === "elsewhere"`)
			b.leave("history.forward()")
			b.wait(opened)
			require.Len(t, b.loaded("/redeem"), 1)
			s.clean()
		})
	}
}

// TestPageOpensForOneRequest: in EveryRequest each page view is worth one proof.
func TestPageOpensForOneRequest(t *testing.T) {
	browser := launch(t)
	s := newWiki(t, func(c *middleware.Config) { c.Challenge.Mode = middleware.EveryRequest })
	b := open(t, browser, s.URL+"/elsewhere")
	for n := range 3 {
		b.do(chromedp.Navigate(s.URL + fmt.Sprintf("/wiki/%d", n)))
		b.wait(opened)
		require.Len(t, b.loaded("/redeem"), n+1)
	}
	require.EqualValues(t, 3, s.served.Load())
	s.clean()
}

// TestPageOpensWithoutScripts: the waiting room, as ever.
func TestPageOpensWithoutScripts(t *testing.T) {
	browser := launch(t)
	s := newWiki(t)
	b := open(t, browser, s.URL+"/elsewhere")
	b.scripts(false)
	b.do(chromedp.Navigate(s.URL + "/wiki/Ada?a=b"))
	b.wait(`document.querySelector("main a")`)
	require.Equal(t, []string{"One moment, please", "This page loads itself again in 5 seconds.", "Load this page again"}, b.reads())
	opensRooms()
	b.wait(opened)
	require.Equal(t, "/wiki/Ada?a=b", eval[string](b, "location.pathname + location.search"))
	require.Empty(t, b.loaded("/redeem"))
}

// TestPageWithoutItsScripts: where they do not come, what is for browsers without is there
// after a moment, and nothing goes round in circles.
func TestPageWithoutItsScripts(t *testing.T) {
	browser := launch(t)
	for _, missing := range []string{"*://*:*/tally/wiki/*/tally.js", "*://*:*/tally/wiki/*/page.js"} {
		s := newWiki(t)
		b := open(t, browser, s.URL+"/elsewhere")
		_, err := chromedp.Call(b.ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: missing, Block: true}}})
		require.NoError(t, err)
		b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
		b.wait(`document.querySelector("main")`)
		if strings.HasSuffix(missing, "/tally.js") {
			b.wait(`getComputedStyle(document.querySelector("tally-check p")).visibility === "visible"`)
			require.Equal(t, []string{"One moment, please", "The check needs JavaScript, and its script has not loaded. Try again in 5 seconds.", "Load this page again"}, b.reads())
		}
		require.Len(t, b.loaded("/wiki/Ada"), 1)
	}
}

// reads returns what can be read on the page, but the name of the site: a line for each element that has text.
func (b *tab) reads() []string {
	b.t.Helper()
	return eval[[]string](b, `[...document.querySelectorAll("main :is(h1, p, span, button, a)")].slice(1)
		.filter((e) => e.checkVisibility({ visibilityProperty: true }) && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
		.map((e) => [...e.childNodes].map((n) => n.nodeType === 3 ? n.data : "").join("").trim())`)
}

// stuck is true where the page says that it does not open by itself.
const stuck = `[...document.querySelectorAll("main > p")].some((p) => !p.hidden && p.innerText.includes("Please allow cookies"))`

// TestPageWithoutCookies: no work at all where the browser says so; and else one purchase.
func TestPageWithoutCookies(t *testing.T) {
	t.Run("blocked", func(t *testing.T) {
		s := newWiki(t)
		b := open(t, launch(t, noCookies(t)), s.URL+"/elsewhere")
		b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
		b.wait(stuck)
		require.Equal(t, []string{"This page cannot be opened", "This page does not open by itself. Please allow cookies for this site, or try again later.", "Load this page again"}, b.reads())
		require.Equal(t, "This page cannot be opened – 127.0.0.1", eval[string](b, "document.title"))
		require.Empty(t, b.loaded("/redeem"))
		require.Len(t, b.loaded("/wiki/Ada"), 1)
		b.click("a")
		b.wait(stuck)
		s.clean()
	})
	t.Run("lost", func(t *testing.T) {
		s := newWiki(t)
		s.drop(func(string) bool { return true })
		b := open(t, launch(t), s.URL+"/elsewhere")
		b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
		b.wait(element + `?.innerText.includes("This site needs cookies. Please allow them.")`)
		require.Equal(t, []string{"This page cannot be opened", "This site needs cookies. Please allow them.", "Try again", "Load this page again"}, b.reads())
		require.Len(t, b.loaded("/redeem"), 1)
		require.Len(t, b.loaded("/wiki/Ada"), 1)
		s.clean()
	})
}

// TestPageDoesNotGoInCircles: a page that is refused again and again, though nothing more is
// needed, is loaded a few times by itself. Its link begins anew.
func TestPageDoesNotGoInCircles(t *testing.T) {
	browser := launch(t)
	s := newWiki(t)
	s.drop(func(path string) bool { return strings.HasPrefix(path, "/wiki/") })
	b := open(t, browser, s.URL+"/elsewhere")
	b.do(chromedp.Navigate(s.URL + "/wiki/Ada#part"))
	b.wait(stuck)
	require.Len(t, b.loaded("/wiki/Ada"), 5)
	require.Len(t, b.loaded("/redeem"), 1, "the endpoints see what was bought")
	s.drop(nil)
	b.click("a")
	b.wait(opened)
	require.Equal(t, "#part", eval[string](b, "location.hash"))
}

// TestPageThatIsRedirected: nor does it where a handler redirects each time to another URL.
func TestPageThatIsRedirected(t *testing.T) {
	browser := launch(t)
	s := newWiki(t)
	s.drop(func(path string) bool { return strings.HasPrefix(path, "/wiki/") })
	var turns atomic.Int64
	s.mux.HandleFunc("GET /wiki/{page}", func(w http.ResponseWriter, r *http.Request) {
		if now := fmt.Sprint(turns.Load()); r.URL.Query().Get("turn") != now {
			http.Redirect(w, r, "/wiki/Ada?turn="+now, http.StatusSeeOther)
			return
		}
		turns.Add(1)
		s.between(s.limit.Handler(http.NotFoundHandler()))(w, r)
	})
	b := open(t, browser, s.URL+"/elsewhere")
	b.do(chromedp.Navigate(s.URL + "/wiki/Ada?turn=0"))
	b.wait(stuck)
	require.EqualValues(t, 5, turns.Load(), "pages of ours, each at a URL of its own")
}

// TestPagesInTabs: of several pages one works, and what it buys opens all.
func TestPagesInTabs(t *testing.T) {
	browser := launch(t)
	s := newWiki(t, dear)
	b := open(t, browser, s.URL+"/elsewhere")
	b.run(`window.frames_ = ["a", "b", "c"].map((name) => {
		const frame = document.createElement("iframe");
		frame.src = "/wiki/" + name;
		document.body.append(frame);
		return frame;
	})`)
	b.wait(`frames_.every((frame) => frame.contentDocument.querySelector("#page"))`)
	require.Len(t, b.loaded("/redeem"), 1)
	s.clean()
}

// TestPageWithoutWorkers says how far it is, and how long it still takes, and goes on to the end, on
// its own thread. The end is tested on another page: work that is long enough for an estimate is too
// much for a device that others keep busy as well.
func TestPageWithoutWorkers(t *testing.T) {
	browser := launch(t)
	opening := func(work func(*middleware.Config)) *tab {
		s := newWiki(t, work)
		b := open(t, browser, s.URL+"/elsewhere")
		b.do(chromedp.Navigate(s.URL + "/wiki/Ada?proxy=" + url.QueryEscape("worker-src 'none'")))
		return b
	}
	b := opening(endless)
	b.wait(element + `?.innerText.includes("Checking…")`)
	b.wait(element + `.querySelector("[role=timer]").textContent.startsWith("About ")`)
	b.do(chromedp.Navigate("about:blank"))
	b = opening(dear)
	b.wait(opened)
	require.Len(t, b.loaded("/redeem"), 1)
}

// TestBackToThePage: a user that goes away while it works, and comes back, finds it at work.
func TestBackToThePage(t *testing.T) {
	browser := launch(t)
	s := newWiki(t, endless)
	b := open(t, browser, s.URL+"/elsewhere")
	b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
	for range 2 {
		b.wait(element + `?.dataset.state === "working"`)
		b.leave("history.back()")
		b.wait(`document.title === "elsewhere"`)
		b.leave("history.forward()")
	}
	b.wait(element + `?.dataset.state === "working"`)
	b.wait(element + `.querySelector("button").offsetWidth`)
	b.click("tally-check button") // Cancel
	b.wait(element + `.dataset.state === "idle"`)
	b.click("a")
	b.wait(element + `?.dataset.state === "working"`)
	s.clean()
}

// TestPartsOfPages: what a page loads is never answered by a page, and nothing of it works.
func TestPartsOfPages(t *testing.T) {
	browser := launch(t)
	s := newWiki(t)
	s.mux.Handle("GET /parts", static("html", `<!doctype html><title>parts</title><link rel="stylesheet" href="/wiki/style.css"><link rel="prefetch" href="/wiki/next">
			<img src="/wiki/image.png"><script src="/wiki/script.js"></script><object data="/wiki/object.svg"></object><video src="/wiki/film.mp4"></video>`))
	b := open(t, browser, s.URL+"/parts")
	b.run(`fetch("/wiki/data.json", { headers: { Accept: "text/html" } })`)
	want := []string{"data.json", "film.mp4", "image.png", "next", "object.svg", "script.js", "style.css"}
	require.Eventually(t, func() bool { return len(s.answered()) == len(want) }, patience, 20*time.Millisecond)
	for _, name := range want {
		require.Equal(t, "403 application/problem+json", s.answered()["/wiki/"+name], name)
	}
	require.Empty(t, b.loaded("/redeem"))
}

// TestPageInTenLanguages: it fits the narrowest phone, and axe finds nothing, at work, stuck
// and without scripts, in light and in dark.
func TestPageInTenLanguages(t *testing.T) {
	browser := launch(t)
	s := newWiki(t, endless)
	check := func(b *tab) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			b.wear(look{scheme, []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}, 320})
			require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 320)
			b.axe()
		}
	}
	for _, language := range []string{"en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh"} {
		t.Run(language, func(t *testing.T) {
			b := open(t, browser, s.URL+"/elsewhere")
			b.speaking(language)
			b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
			b.wait(element + `?.querySelector("progress")?.hidden === false`)
			require.Equal(t, language, eval[string](b, "document.documentElement.lang"))
			check(b)
		})
	}
	t.Run("stuck", func(t *testing.T) {
		b := open(t, browser, s.URL+"/elsewhere")
		b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
		b.run(`sessionStorage.setItem("tallystick /tally/wiki/", JSON.stringify([location.href, Date.now() + 6e4, 9]))`)
		b.do(chromedp.Reload())
		b.wait(stuck)
		check(b)
	})
	t.Run("without scripts", func(t *testing.T) {
		s := newWiki(t, noRoom)
		b := open(t, browser, s.URL+"/elsewhere")
		b.scripts(false)
		b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
		b.wait(`document.body.innerText.includes("The check needs JavaScript, and its script has not loaded.")`)
		b.scripts(true) // axe's
		check(b)
	})
}

// TestBarOfThePage: its track is dark in a dark page, and light in a light one.
func TestBarOfThePage(t *testing.T) {
	browser := launch(t)
	s := newWiki(t, endless)
	b := open(t, browser, s.URL+"/elsewhere")
	b.do(chromedp.Navigate(s.URL + "/wiki/Ada"))
	b.wait(element + `?.querySelector("progress")?.hidden === false`)
	for scheme, dark := range map[string]bool{"dark": true, "light": false} {
		b.wear(look{scheme, []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}, 390})
		end := eval[[2]float64](b, `(() => { const box = `+element+`.querySelector("progress").getBoundingClientRect(); return [box.right - 20, box.y + box.height / 2]; })()`)
		shot := kit.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t)
		picture := kit.Must(png.Decode(bytes.NewReader(shot)))(t)
		level := color.GrayModel.Convert(picture.At(int(end[0]), int(end[1]))).(color.Gray).Y
		require.Equal(t, dark, level < 128, "%s: %d", scheme, level)
	}
}

// TestPrivatePages: what a handler lets a browser store for its user is stored, and asked about
// with a validator. What comes from there brings no older token back: not its cookie, and not
// its field, because tallyFetch asks where it carries tokens.
func TestPrivatePages(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct {
		fetch  string
		shown  func(*http.Request) string
		news   func(http.Header) string
		served int // of three loads
	}{
		"by cookie": {
			"fetch(url).then((r) => r.status)",
			func(r *http.Request) string {
				c, err := r.Cookie("__Host-tallystick-private")
				if err != nil {
					return ""
				}
				return c.Value
			},
			func(h http.Header) string {
				value, _, _ := strings.Cut(strings.TrimPrefix(h.Get("Set-Cookie"), "__Host-tallystick-private="), ";")
				return value
			},
			1,
		},
		"by field": {
			"tallyFetch(url, {}, { header: true }).then((r) => r.status)",
			func(r *http.Request) string { return r.Header.Get(middleware.TokenHeader) },
			func(h http.Header) string { return h.Get(middleware.TokenHeader) },
			3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			limit := newLimit(t, "private", 100)
			var newest string
			served, unchanged := map[string]int{}, 0
			handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served[r.URL.Path]++
				if r.URL.Path == "/private" {
					w.Header().Set("Cache-Control", "private, max-age=300")
					w.Header().Set("ETag", `"1"`)
					if r.Header.Get("If-None-Match") != "" {
						unchanged++
						w.WriteHeader(http.StatusNotModified)
					}
				}
			}))
			note := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if newest != "" && test.shown(r) != newest {
					t.Errorf("%s shows another token than the newest", r.URL.Path)
				}
				handler.ServeHTTP(w, r)
				newest = test.news(w.Header())
			})
			s.mux.Handle("/private", note)
			s.mux.Handle("/other", note)
			b := openAPI(t, browser, s)
			load := func(url string) {
				b.run(`window.url = "` + url + `"`)
				require.Equal(t, 200, eval[int](b, test.fetch))
			}
			for range 3 {
				load("/private")
				load("/other")
			}
			require.Equal(t, map[string]int{"/private": test.served, "/other": 3}, served)
			require.Equal(t, test.served-1, unchanged)
			s.clean()
		})
	}
}
