// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/words"
)

// Navigates reports whether r asks for a page to be shown, as far as the browser says, and not for
// something in a page: a script, a style sheet or an image is never answered by one. An embedded
// document has content of its own for a refusal.
func Navigates(r *http.Request) bool {
	mode, dest := r.Header["Sec-Fetch-Mode"], r.Header["Sec-Fetch-Dest"]
	return (len(mode) == 0 || mode[0] == "navigate") && (len(dest) == 0 || dest[0] != "embed" && dest[0] != "object")
}

// Opens reports whether r asks for a page that may be asked for again: it sends nothing.
func Opens(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && Navigates(r)
}

// framedByAnother reports whether another site has put r into a frame. It could have its
// visitors buy for it, and no cookie would come along but those that are for such frames.
func framedByAnother(r *http.Request) bool {
	dest, site := r.Header["Sec-Fetch-Dest"], r.Header["Sec-Fetch-Site"]
	return len(dest) > 0 && dest[0] != "document" && len(site) > 0 && site[0] == "cross-site"
}

// Opens reports whether the page in answer to r has a script that opens the one that was asked for.
func (r *Refusal) Opens(asked *http.Request) bool {
	return Opens(asked) && !r.Setup && r.HasScript() && (r.Embedded || !framedByAnother(asked))
}

// AppendPage appends a page for people in answer to a request, to be sent with the fields h; site
// is the name of the site, "" for its host. In place of a page that was asked for it has the
// browser do what there is to do, and open that one.
//
// Nothing tells search engines to keep out: they store no refusal, and would apply the
// rule to the page behind.
func AppendPage(b []byte, refusal *Refusal, h http.Header, r *http.Request, site string) []byte {
	language, opens := words.For(h, r), Opens(r)
	w := language.Page()
	script := refusal.Opens(r)
	title, more, ancestors := w.Refused, "", ""
	if script && !refusal.Embedded {
		ancestors = "'self'" // not every browser names the page that frames it, see framedByAnother
	}
	if refusal.PageStyle != "" { // else it loads nothing
		SetPolicy(h, ancestors)
	}
	switch {
	case script:
		title = w.Moment
	case refusal.Cause == QuotaExceeded:
		title = w.TooMany
	case refusal.Cause == ProofRequired && !opens:
		title = w.Title
	}
	b = appendHead(b, language)
	if opens && refusal.reloads() {
		b = appendRefresh(b, refusal)
	}
	b = appendSheet(b, refusal.PageStyle)
	if script {
		b = appendElement(b, refusal)
		b = appendScript(b, refusal.PageScript)
		more = w.Refused // the title where the page turns out not to open
	}
	b = appendTitle(b, title, more, site, r)
	wait := refusal.Wait()
	switch {
	case refusal.Setup:
		b = Add(b, "<p>", w.Setup, "</p>\n")
	case script:
		b = appendSolving(b, refusal, language)
	case opens:
		if wait > 0 {
			b = Add(language.AppendWait(Add(b, "<p>"), w.Later, wait), " ")
			b = Add(appendReload(b, w), "</p>\n")
		}
	default:
		b = appendUnsent(b, refusal, language)
	}
	return Add(b, "</main>\n")
}

// appendSolving appends what has the page opened that was asked for. It is true where no script runs: what the
// script does is hidden until it does it. The content of the element is for a browser that does not run it, because
// it has no scripts, or a policy, a proxy or a blocker keeps the script away. The link is for all.
func appendSolving(b []byte, refusal *Refusal, language words.Language) []byte {
	w := language.Page()
	if refusal.Challenge.Text == "" { // nothing is for sale, and the script waits
		b = Add(b, "<p hidden>", w.Many, " ", w.Waits, "</p>\n<form>\n")
	} else {
		b = Add(b, "<p hidden>", w.Opens, " ", w.Waits, " <span>")
		b = Add(language.AppendWait(b, w.Takes, onPhone(refusal.Challenge.Work)), "</span></p>\n<form>\n")
	}
	b = AppendCheck(b, refusal)
	for _, text := range [...]struct{ of, is string }{{"sending", w.Opening}, {"wait", w.Waits}, {"unsent", ""}, {"retry", w.Retry}} {
		b = Add(b, " text-", text.of, `="`, text.is, `"`)
	}
	if refusal.Challenge.Text != "" { // the request for one is saved
		b = Add(b, ` data-challenge="`, refusal.Challenge.Text, `"`)
	}
	b = Add(b, "><p>", w.Unloaded)
	wait := refusal.Wait()
	if wait > 0 {
		b = language.AppendWait(Add(b, " "), w.Later, wait)
	}
	b = Add(b, "</p>")
	if refusal.reloads() {
		b = Add(language.AppendWait(Add(b, "<noscript><p>"), w.Reloads, wait), "</p></noscript>")
	}
	b = Add(b, "</tally-check>\n</form>\n<p hidden>", w.Stuck, "</p>\n<p>")
	return Add(appendReload(b, w), "</p>\n")
}

// phone is the hash rate of a slow phone of 2020, as in proof/lab/price; a
// recent one is several times as fast.
const phone = 700_000

// onPhone returns how long a phone takes for work, as coarsely as it can be told: one in a hundred takes half as long
// again.
func onPhone(work uint64) time.Duration {
	seconds, step := max(1, (work+phone-1)/phone), uint64(1)
	if seconds > 10 {
		step = 5
	}
	return time.Duration((seconds+step-1)/step*step) * time.Second
}

// appendUnsent appends what becomes of what was sent: that it must be sent again.
func appendUnsent(b []byte, refusal *Refusal, language words.Language) []byte {
	w := language.Page()
	wait := refusal.Wait()
	if wait == 0 && refusal.Cause != ProofRequired {
		return b
	}
	b = Add(b, "<p>")
	if refusal.Cause == ProofRequired {
		b = Add(b, w.Check, " ")
	}
	if wait > 0 {
		b = language.AppendWait(Add(b, w.GoBack, " "), w.Wait, wait)
	} else {
		b = Add(b, w.Script)
	}
	return Add(b, "</p>\n")
}

// appendReload appends a link to the page's own URL, whatever that is.
func appendReload(b []byte, w *words.Page) []byte { return Add(b, `<a href="">`, w.Reload, "</a>") }

// AppendTop begins a page as far as its heading. It has the element, if that is said, and no script of its own.
func AppendTop(b []byte, refusal *Refusal, language words.Language, element bool, title, site string, r *http.Request) []byte {
	b = appendSheet(appendHead(b, language), refusal.PageStyle)
	if element {
		b = appendElement(b, refusal)
	}
	return appendTitle(b, title, "", site, r)
}

// appendHead begins every page.
func appendHead(b []byte, language words.Language) []byte {
	b = language.AppendAttributes(Add(b, "<!doctype html>\n<html"))
	return Add(b, ">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
}

// appendSheet appends a link to a style sheet, if there is one.
func appendSheet(b []byte, url string) []byte {
	if url == "" {
		return b
	}
	return Add(AppendEscaped(Add(b, `<link rel="stylesheet" href="`), url), "\">\n")
}

// modules are what the script of the element imports. A browser that is told of them early loads them along with it
// and not after it.
var modules = [...]string{"fetch.js", "texts.js", "solver.js"}

// appendElement appends the style sheet and the script of the element.
func appendElement(b []byte, refusal *Refusal) []byte {
	b = appendScript(appendSheet(b, refusal.Style), refusal.Script)
	folder := refusal.Script[:strings.LastIndexByte(refusal.Script, '/')+1]
	for _, name := range modules {
		b = Add(AppendEscaped(Add(b, `<link rel="modulepreload" href="`), folder), name, "\">\n")
	}
	return b
}

func appendScript(b []byte, url string) []byte {
	return Add(AppendEscaped(Add(b, `<script type="module" src="`), url), "\"></script>\n")
}

// longestHost is how long the name of a host is at most (RFC 1035, section 2.3.4).
const longestHost = 253

// appendTitle appends the title, the site's name, and the heading; other is another title, for a script, or "".
func appendTitle(b []byte, title, other, site string, r *http.Request) []byte {
	if site == "" {
		site = r.Host
		if port := strings.LastIndexByte(site, ':'); port > strings.LastIndexByte(site, ']') {
			site = site[:port]
		}
		if len(site) > longestHost {
			site = ""
		}
	}
	b = Add(b, "<title>", title)
	if site != "" {
		b = AppendEscaped(Add(b, " – "), site)
	}
	b = Add(b, "</title>\n<main>\n")
	if site != "" {
		b = Add(AppendEscaped(Add(b, "<p>"), site), "</p>\n")
	}
	b = Add(b, "<h1")
	if other != "" {
		b = Add(b, ` data-else="`, other, `"`)
	}
	return Add(b, ">", title, "</h1>\n")
}

// AppendCheck appends the element, and leaves its tag open.
func AppendCheck(b []byte, refusal *Refusal) []byte {
	b = AppendEscaped(Add(b, `<tally-check endpoint="`), refusal.Base)
	if refusal.Cost > 1 { // the endpoint cannot know
		b = strconv.AppendInt(Add(b, `" cost="`), refusal.Cost, 10)
	}
	return Add(b, `"`)
}

// longestRefresh is how long a page waits by itself. After that the visitor has
// left.
const longestRefresh = time.Minute

// reloads reports whether a page that was asked for is loaded anew by a browser without scripts.
func (r *Refusal) reloads() bool { return r.RoomWait > 0 && r.Wait() <= longestRefresh }

// appendRefresh has the page loaded anew when its wait is over, by a browser that runs
// no script. Nothing on it could be lost.
func appendRefresh(b []byte, r *Refusal) []byte {
	b = Add(b, `<noscript><meta http-equiv="refresh" content="`)
	return Add(strconv.AppendInt(b, int64(r.Wait()/time.Second), 10), "\"></noscript>\n")
}
