// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

const chromium = "/usr/bin/chromium"

// patience is how long a test may take: the machine may be busy.
const patience = 10 * time.Minute

// launch starts a Chromium of its own and returns its context. It ends with the
// test.
func launch(t *testing.T, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no browser") // which is all that this module is for, and so plain "go test" opens it
	}
	if _, err := os.Stat(chromium); err != nil {
		kit.Unable(t, "there is no %s", chromium)
	}
	options := append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium),
		chromedp.UserDataDir(profile(t)),
		chromedp.NoFirstRun,
		chromedp.NoSandbox,
		chromedp.Headless,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.WSURLReadTimeout(patience),
	}, flags...)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the process
		stop()
		cancel()
	})
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// profile makes a folder that goes with the test, once the children of a browser that has ended write nothing into it
// any more.
func profile(t *testing.T) string {
	t.Helper()
	dir := kit.Must(os.MkdirTemp("", "profile"))(t)
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, patience, 20*time.Millisecond)
	})
	return dir
}

// noCookies has a browser keep none.
func noCookies(t *testing.T) chromedp.ExecAllocatorOption {
	t.Helper()
	dir := profile(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "Default"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Default", "Preferences"), []byte(`{"profile":{"default_content_setting_values":{"cookies":2}}}`), 0o600))
	return chromedp.UserDataDir(dir)
}

// A tab is a page in a profile of its own, with a record of what it loads.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
}

func open(t *testing.T, browser context.Context, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	require.NoError(t, chromedp.Do(ctx))
	ctx, stop := context.WithTimeout(ctx, patience)
	t.Cleanup(func() { stop(); cancel() })
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.requests = append(b.requests, sent.Request.Method+" "+sent.Request.URL)
		}
	}))
	kit.Must(chromedp.Call(ctx, network.Enable, network.EnableParams{}))(t)
	b.visit(url)
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// visit goes to a page and waits until the element is there.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.wait(`!document.querySelector("tally-check") || document.querySelector("tally-check").dataset.state === "idle"`)
}

// loaded returns the requests whose method and URL hold part.
func (b *tab) loaded(part string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		if strings.Contains(r, part) {
			found = append(found, r)
		}
	}
	return found
}

// eval evaluates an expression, awaiting promises.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return result
}

// run evaluates an expression for what it does.
func (b *tab) run(expression string) {
	b.t.Helper()
	eval[chromedp.Void](b, "Promise.resolve("+expression+").then(() => undefined)")
}

// module makes what the page's module exports known to what is evaluated.
func (b *tab) module() {
	b.t.Helper()
	b.run(`import(document.querySelector("[type=module]").src).then((m) => Object.assign(window, m))`)
}

// leave evaluates an expression that leaves the page. The page answers before it goes: a page that
// is gone while its answer is awaited is an error of the protocol.
func (b *tab) leave(expression string) {
	b.t.Helper()
	b.run("void setTimeout(() => {" + expression + "})")
}

// wait polls until an expression is true. It polls by hand, because a page that
// comes from the back/forward cache fires no load event.
func (b *tab) wait(expression string) {
	b.t.Helper()
	for {
		if yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && yes {
			return
		}
		select {
		case <-b.ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Minute)
			defer cancel()
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
			require.FailNow(b.t, "never true: "+expression, "%s\n%s", text, strings.Join(b.loaded(""), "\n"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// click clicks with the mouse, as a person does, twice if so told. It finds the
// place by script: the driver's own view of a page is lost when the page comes from
// the back/forward cache.
func (b *tab) click(selector string, options ...chromedp.MouseOption) {
	b.t.Helper()
	at := eval[[2]float64](b, fmt.Sprintf(`(() => {
		const target = document.querySelector(%q);
		target.scrollIntoView({ block: "center", behavior: "instant" });
		const box = target.getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	})()`, selector))
	b.do(chromedp.MouseClickXY(at[0], at[1], options...))
}

func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// elsewhere goes to another page and comes back, from the back/forward cache.
func (b *tab) elsewhere(s *site) {
	b.t.Helper()
	b.visit(s.URL + "/elsewhere")
	history, err := chromedp.Call(b.ctx, page.GetNavigationHistory, cdp.Empty{})
	require.NoError(b.t, err)
	entry := history.Entries[history.CurrentIndex-1]
	_, err = chromedp.Call(b.ctx, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: entry.ID})
	require.NoError(b.t, err)
	b.wait(`document.title !== "elsewhere" && window.persisted !== undefined`)
	require.True(b.t, eval[bool](b, "persisted"), "not from the back/forward cache")
}

// sleep waits for a server's clock, which no test can move from here.
func sleep(b *tab, seconds int) {
	b.t.Helper()
	select {
	case <-b.ctx.Done():
		require.FailNow(b.t, "out of time")
	case <-time.After(time.Duration(seconds) * time.Second):
	}
}
