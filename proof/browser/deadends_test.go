// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

type deadEnd struct {
	name   string
	change func(*middleware.Config)
	page   string
	// meet leads there, from the page to the state.
	meet func(s *site, b *tab)
	// tree is what a screen reader is told, with every number as N.
	tree []string
	// on is the way on: what makes it go on, if anything must, until the form is sent;
	// nil where there is none but to ask again.
	on func(s *site, b *tab)
	// redeems is how many purchases were made until the end.
	redeems int
}

// noRoom closes the waiting rooms.
func noRoom(c *middleware.Config) {
	if c.Challenge.Mode != middleware.EveryRequest {
		c.Challenge.NoWaitingRoom = true
	}
}

// connect sets what the browser believes of its network, and whether requests get through.
func (b *tab) connect(online, through bool) {
	b.t.Helper()
	blocked := network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/*", Block: !through}}}
	_, err := chromedp.Call(b.ctx, network.SetBlockedURLs, blocked)
	require.NoError(b.t, err)
	_, err = chromedp.Call(b.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: !online, DownloadThroughput: -1, UploadThroughput: -1})
	require.NoError(b.t, err)
}

// reach sends the form and waits for a state.
func (b *tab) reach(state string) {
	b.t.Helper()
	b.click("#send")
	b.wait(element + `.dataset.state === "` + state + `"`)
}

// unsent is what a screen reader is told where nothing goes on by itself.
func unsent(why string) []string {
	return []string{`form "Message"`, `status "` + why + ` Nothing was sent." live=polite`, `timer ""`, `button "Send again" focused`}
}

// stays is what it is told where the form waits.
func stays(why, left string) []string {
	return []string{`form "Message"`, `status "` + why + ` The form waits here and is sent by itself." live=polite`, `timer "` + left + `"`, `button "Cancel"`}
}

// mend is the way on that begins with a press, once the site is whole again.
func mend(s *site, b *tab) {
	s.breakDown(0, "")
	b.connect(true, true)
	b.click("tally-check button")
}

// deadEnds are all of them but those that want a browser of their own.
var deadEnds = []deadEnd{
	{
		name: "too many, no room",
		page: "feedback", change: func(c *middleware.Config) { c.Limits[0].Quota = min(c.Limits[0].Quota, 1) },
		meet: func(s *site, b *tab) { // the one request that there is, so that the next has to wait for an hour
			b.send("#send")
			b.visit(s.URL + "/feedback")
			b.reach("error")
		},
		tree: []string{
			`form "Message"`, `status "Too many requests. Nothing was sent." live=polite`, `timer "Try again in N minutes." live=polite`,
		},
		redeems: 1,
	},
	{
		name: "too many, for a moment",
		page: "signup", change: noRoom,
		meet:    func(s *site, b *tab) { s.breakDown(http.StatusTooManyRequests, "20"); b.reach("waiting") },
		tree:    stays("Too many requests.", "N seconds left."),
		on:      func(s *site, _ *tab) { s.breakDown(0, "") },
		redeems: 1,
	},
	{
		name: "too dear, no room",
		page: "signup?price=1000", change: noRoom,
		meet: func(_ *site, b *tab) { b.reach("error") },
		tree: unsent("The check would be too much work for this browser."),
	},
	{
		name: "too dear, and a room",
		page: "signup?price=1000",
		meet: func(_ *site, b *tab) { b.reach("waiting") },
		tree: stays("The check would be too much work for this browser.", "N seconds left."),
		on:   func(*site, *tab) { opensRooms() },
	},
	{
		name:    "offline",
		page:    "signup",
		meet:    func(_ *site, b *tab) { b.connect(false, false); b.reach("waiting") },
		tree:    stays("You are offline.", ""),
		on:      func(_ *site, b *tab) { b.connect(true, true) },
		redeems: 1,
	},
	{
		name:    "server gone",
		page:    "signup",
		meet:    func(_ *site, b *tab) { b.connect(true, false); b.reach("error") },
		tree:    unsent("The site does not answer."),
		on:      mend,
		redeems: 1,
	},
	{
		name:    "server down, back in a moment",
		page:    "signup",
		meet:    func(s *site, b *tab) { s.breakDown(http.StatusServiceUnavailable, "15"); b.reach("waiting") },
		tree:    stays("The site does not answer.", "N seconds left."),
		on:      func(s *site, _ *tab) { s.breakDown(0, "") },
		redeems: 1,
	},
	{
		name:    "forbidden",
		page:    "signup",
		meet:    func(s *site, b *tab) { s.breakDown(http.StatusForbidden, ""); b.reach("error") },
		tree:    unsent("The site refuses this request."),
		on:      mend,
		redeems: 1,
	},
	{
		name: "the instance that redeems has another secret",
		page: "signup",
		meet: func(s *site, b *tab) { s.redeemElsewhere("other"); b.reach("error") },
		tree: setUpWrongly, redeems: 2, // the second is of its own challenge, and the first instance does not know what it has sold
	},
	{
		name: "each redeems what the other has issued",
		page: "signup",
		meet: func(s *site, b *tab) { s.redeemElsewhere("other", "signup"); b.reach("error") },
		tree: setUpWrongly, redeems: 3,
	},
	{
		name:    "something else",
		page:    "signup",
		meet:    func(s *site, b *tab) { s.breakDown(http.StatusNotFound, ""); b.reach("error") },
		tree:    unsent("The check failed."),
		on:      mend,
		redeems: 1,
	},
}

var setUpWrongly = []string{
	`form "Message"`, `status "This site is set up wrongly. Please tell its owner. Nothing was sent." live=polite`, `timer ""`, `button "Send again" focused`,
}

// redeemElsewhere has instances redeem proofs in turn: "signup", the site's own, or "other", which has
// another secret.
func (s *site) redeemElsewhere(names ...string) {
	other, err := middleware.New(middleware.Config{
		Policy: "signup", Limits: []middleware.Limit{{Quota: 2, Window: time.Hour}}, Secrets: [][]byte{[]byte(strings.Repeat("o", 32))},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers, Work: work, Path: "/tally/signup/"}, Logger: slog.New(slog.DiscardHandler), Now: clock.Now,
	})
	require.NoError(s.t, err)
	instances := map[string]http.Handler{"signup": s.limits["signup"].Endpoints(), "other": other.Endpoints()}
	var next atomic.Int64
	s.mux.HandleFunc("POST /tally/signup/redeem", func(w http.ResponseWriter, r *http.Request) {
		instances[names[int(next.Add(1)-1)%len(names)]].ServeHTTP(w, r)
	})
}

var number = regexp.MustCompile(`\b\d+\b`)

// requireTree requires what a screen reader is told, with N for numbers. A wait that begins anew is read out once more:
// the tree may show this moment.
func (b *tab) requireTree(want ...string) {
	b.t.Helper()
	var lines []string
	for end := time.Now().Add(time.Minute); lines == nil || !slices.Equal(want, lines) && time.Now().Before(end); {
		lines = b.tree()
		for i := range lines {
			lines[i] = number.ReplaceAllString(strings.ReplaceAll(lines[i], `\u00a0`, " "), "N")
		}
	}
	require.Equal(b.t, want, lines)
}

// TestDeadEnds: each has its own words, keeps what was typed, and has a way on.
func TestDeadEnds(t *testing.T) {
	browser := launch(t)
	for _, end := range deadEnds {
		t.Run(end.name, func(t *testing.T) { end.run(t, browser) })
	}
}

func (end *deadEnd) run(t *testing.T, browser context.Context) {
	s := newSite(t, end.change)
	b := open(t, browser, s.URL+"/"+end.page)
	end.meet(s, b)
	posts := len(s.got())
	// The first time of a wait is read out, and the next, a second later, is not.
	b.wait(element + `.dataset.state === "error" || ` + element + `.dataset.reason === "offline" || ` + element + `.querySelector("[role=timer]").ariaLive === "off"`)
	b.requireTree(end.tree...)
	require.Empty(t, eval[string](b, `document.querySelector("form").getAttribute("aria-busy") ?? ""`))
	require.Equal(t, "hello", eval[string](b, `document.querySelector("[name=message]").value`))
	require.Equal(t, eval[string](b, element+`.dataset.state`) == "error", eval[bool](b, element+`.contains(document.activeElement)`), "the focus is where it goes on")
	if end.on != nil {
		require.Empty(t, s.got()[posts:], "not before the way on")
		end.on(s, b)
		b.wait(thanked)
		require.Len(t, s.got(), posts+1)
		require.Equal(t, []string{"hello"}, s.got()[posts].values["message"])
	}
	require.Len(t, b.loaded("/redeem"), end.redeems)
	s.clean()
}

// TestSlowDevice: a device that will not be in time hears so early. At the end of the five minutes
// that there are is too late for this test: it would be the first of three such challenges.
func TestSlowDevice(t *testing.T) {
	browser := launch(t, chromedp.Flag("js-flags", "--jitless"))
	end := deadEnd{
		page: "signup", change: endless,
		meet: func(_ *site, b *tab) { b.reach("waiting") },
		tree: stays("This device is too slow for the check.", "N seconds left."),
		on:   func(*site, *tab) { opensRooms() },
	}
	end.run(t, browser)
	end.change = func(c *middleware.Config) { c.Challenge.Work = 1 << 28; noRoom(c) }
	end.meet = func(_ *site, b *tab) { b.reach("error") }
	end.tree = unsent("This device is too slow for the check.")
	end.on = nil
	end.run(t, browser)
}

// TestCookiesBlocked: one purchase tells that cookies are not kept; the next would be lost
// as well, and dearer for everybody behind the address.
func TestCookiesBlocked(t *testing.T) {
	browser := launch(t, noCookies(t))
	for _, policy := range []string{"signup", "feedback"} {
		t.Run(policy, func(t *testing.T) {
			end := deadEnd{
				page:    policy,
				meet:    func(_ *site, b *tab) { b.reach("error") },
				tree:    unsent("This site needs cookies. Please allow them."),
				redeems: 1,
			}
			end.run(t, browser)
		})
	}
	t.Run("nor does a ticket help", func(t *testing.T) {
		end := deadEnd{
			page: "signup?price=1000",
			meet: func(_ *site, b *tab) { b.reach("error") },
			tree: unsent("This site needs cookies. Please allow them."),
		}
		end.run(t, browser)
	})
}

// TestCancel: what takes long, or waits, can be ended, and nothing is sent.
func TestCancel(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct {
		page   string
		change func(*middleware.Config)
	}{
		"work":   {"signup", endless},
		"a wait": {"signup?price=1000", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, test.change)
			b := open(t, browser, s.URL+"/"+test.page)
			b.click("#send")
			b.wait(`!` + element + `.querySelector("button").hidden`)
			b.click("tally-check button")
			require.Equal(t, "idle", eval[string](b, element+`.dataset.state`))
			require.Equal(t, "send", eval[string](b, `document.activeElement.id`))
			b.requireTree(`form "Message"`, `status "" live=polite`, `timer ""`)
			require.Zero(t, eval[float64](b, element+`.getBoundingClientRect().height`), "nothing to say takes no room")
			opensRooms()
			sleep(b, 6) // the form would have been sent
			require.Empty(t, s.got())
			b.click("#send")
			b.wait(element + `.dataset.state !== "idle"`)
		})
	}
}

// TestTimeLeft: while it works it says for how long yet, without a flood of words.
func TestTimeLeft(t *testing.T) {
	browser := launch(t)
	s := newSite(t, func(c *middleware.Config) { c.Challenge.Work = 3 << 24 })
	s.hasTime("signup")
	b := open(t, browser, s.URL+"/signup?lang=fr")
	b.run(`Object.defineProperty(navigator, "hardwareConcurrency", { value: 1 })`) // or many fast cores are done before it says anything
	b.click("[name=message]")
	b.run(`(() => {
		const note = (selector) => {
			const list = [], node = ` + element + `.querySelector(selector);
			new MutationObserver(() => { if (list.at(-1) !== node.textContent) list.push(node.textContent); }).observe(node, { childList: true });
			return list;
		};
		window.said = note("[role=status]");
		window.told = note("[role=timer]");
		window.lives = [];
		const timer = ` + element + `.querySelector("[role=timer]");
		new MutationObserver(() => lives.push(timer.ariaLive)).observe(timer, { childList: true });
		addEventListener("submit", () => { sessionStorage.said = JSON.stringify({ said, told, lives }); }, true);
	})()`)
	b.click("#send")
	b.wait(`told.length`)
	require.Equal(t, "true", eval[string](b, `document.querySelector("form").getAttribute("aria-busy")`))
	require.Regexp(t, `^form "Message"\nstatus "Vérification…" live=polite\n`+ // the first time is read out, and may be over
		`timer "Encore \d+ (seconde|minute)s? environ\."( live=polite)?\nbutton "Annuler"\nprogressbar "Vérification…"$`,
		strings.ReplaceAll(strings.Join(b.tree(), "\n"), `\u00a0`, " "))
	b.wait(thanked)
	heard := eval[struct{ Said, Told, Lives []string }](b, `JSON.parse(sessionStorage.said)`)
	require.Equal(t, []string{"Vérification…", "Vérifié. Envoi…"}, heard.Said)
	told := heard.Told[:len(heard.Told)-1]
	require.Empty(t, heard.Told[len(told)])
	t.Log(told)
	before, least := math.MaxInt, math.MaxInt // the words of the estimate
	for i, words := range told {
		of := regexp.MustCompile(`^Encore (\d+) (seconde|minute)s? environ\.$`).FindStringSubmatch(strings.ReplaceAll(words, "\u00a0", " "))
		require.Len(t, of, 3, words)
		require.Equal(t, i == 0, heard.Lives[i] == "polite", "the first is read out, no other")
		after := kit.Must(strconv.Atoi(of[1]))(t)
		rounds := 0
		if of[2] == "minute" {
			after, rounds = after*60, 60
		}
		require.True(t, after < before || after >= least+least/2, "it does not tremble: %d, then %d", before, after)
		before, least = after, after-rounds
	}
}
