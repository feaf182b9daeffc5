// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Navigates reports whether r asks for a page to be shown, as far as the browser says, and
// not for something in a page: a script, a style sheet or an image is never answered by
// one. What is embedded has content of its own for a refusal.
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

// AppendPage appends a page for people in answer to a request, to be sent with the fields h;
// site is the name of the site, "" for that of its host. In place of a page that was asked
// for it has the browser do what there is to do, and open that one.
//
// Nothing tells search engines to keep out: no one stores a refusal, and what they are
// told here they would believe of the page behind.
func AppendPage(b []byte, refusal *Refusal, h http.Header, r *http.Request, site string) []byte {
	w, opens := wordsFor(h, r), Opens(r)
	script := refusal.Opens(r)
	title, ancestors := w.refused, ""
	if script && !refusal.Embedded {
		ancestors = "'self'" // not every browser says who frames it, see framedByAnother
	}
	if refusal.PageStyle != "" { // else it loads nothing
		setPolicy(h, ancestors)
	}
	switch {
	case script:
		title = w.moment
	case refusal.Cause == QuotaExceeded:
		title = w.tooMany
	case refusal.Cause == ProofRequired && !opens:
		title = w.title
	}
	b = appendHead(b, w.language)
	if opens && refusal.reloads() {
		b = append(appendRefresh(b, refusal), '\n')
	}
	b = appendSheet(b, refusal.PageStyle)
	if script {
		b = appendElement(b, refusal)
		b = appendScript(b, refusal.PageScript)
	}
	more := ""
	if script {
		more = w.refused // the title where the page turns out not to open
	}
	b = appendTitle(b, title, more, site, r)
	wait := refusal.Wait()
	switch {
	case refusal.Setup:
		b = append(append(append(b, "<p>"...), w.setup...), "</p>\n"...)
	case script:
		b = appendSolving(b, refusal, w)
	case opens:
		if wait > 0 {
			b = append(w.appendWait(append(b, "<p>"...), w.later, wait), ' ')
			b = append(appendReload(b, w), "</p>\n"...)
		}
	default:
		b = appendUnsent(b, refusal, w)
	}
	return append(b, "</main>\n"...)
}

// appendSolving appends what has the page opened that was asked for. It is true where no script runs: what the script
// does is hidden until it does it. What stands in the element is for a browser that does not run it, because it has
// none, or a policy, a proxy or a blocker keeps it away. The link is for everybody.
func appendSolving(b []byte, refusal *Refusal, w *words) []byte {
	b = append(b, "<p hidden>"...)
	if refusal.Challenge.Text == "" { // nothing is for sale, and the script waits
		b = append(append(append(append(b, w.many...), ' '), w.waits...), "</p>\n<form>\n"...)
	} else {
		b = append(append(append(append(b, w.opens...), ' '), w.waits...), " <span>"...)
		b = append(w.appendWait(b, w.takes, onPhone(refusal.Challenge.Work)), "</span></p>\n<form>\n"...)
	}
	b = appendCheck(b, refusal)
	for _, text := range [...]struct{ of, is string }{{"sending", w.opening}, {"wait", w.waits}, {"unsent", ""}, {"retry", w.retry}} {
		b = append(append(b, " text-"...), text.of...)
		b = append(append(append(b, `="`...), text.is...), '"')
	}
	if refusal.Challenge.Text != "" { // the request for one is saved
		b = append(append(append(b, ` data-challenge="`...), refusal.Challenge.Text...), '"')
	}
	b = append(append(b, "><p>"...), w.unloaded...)
	wait := refusal.Wait()
	if wait > 0 {
		b = w.appendWait(append(b, ' '), w.later, wait)
	}
	b = append(b, "</p>"...)
	if refusal.reloads() {
		b = append(w.appendWait(append(b, "<noscript><p>"...), w.reloads, wait), "</p></noscript>"...)
	}
	b = append(b, "</tally-check>\n</form>\n<p hidden>"...)
	b = append(append(b, w.stuck...), "</p>\n<p>"...)
	return append(appendReload(b, w), "</p>\n"...)
}

// phone is how many hashes a second are those of a phone: the one by which proof/lab/price has its times. A slow one
// of 2020 does as many, a recent one several times as many.
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
func appendUnsent(b []byte, refusal *Refusal, w *words) []byte {
	wait := refusal.Wait()
	if wait == 0 && refusal.Cause != ProofRequired {
		return b
	}
	b = append(b, "<p>"...)
	if refusal.Cause == ProofRequired {
		b = append(append(b, w.check...), ' ')
	}
	if wait > 0 {
		b = w.appendWait(append(append(b, w.goBack...), ' '), w.wait, wait)
	} else {
		b = append(b, w.script...)
	}
	return append(b, "</p>\n"...)
}

// appendReload appends a link to the page's own URL, whatever that is.
func appendReload(b []byte, w *words) []byte {
	return append(append(append(b, `<a href="">`...), w.reload...), "</a>"...)
}

// appendHead begins every page.
func appendHead(b []byte, language string) []byte {
	b = append(b, "<!doctype html>\n<html lang=\""...)
	b = append(b, language...)
	return append(b, "\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"...)
}

// appendSheet appends a link to a style sheet, if there is one.
func appendSheet(b []byte, url string) []byte {
	if url == "" {
		return b
	}
	b = append(b, `<link rel="stylesheet" href="`...)
	return append(appendEscaped(b, url), "\">\n"...)
}

// modules are what the script of the element imports. A browser that is told of them early loads them along with it
// and not after it.
var modules = [...]string{"fetch.js", "texts.js", "solver.js"}

// appendElement appends the style sheet and the script of the element.
func appendElement(b []byte, refusal *Refusal) []byte {
	b = appendScript(appendSheet(b, refusal.Style), refusal.Script)
	folder := refusal.Script[:strings.LastIndexByte(refusal.Script, '/')+1]
	for _, name := range modules {
		b = append(b, `<link rel="modulepreload" href="`...)
		b = append(append(appendEscaped(b, folder), name...), "\">\n"...)
	}
	return b
}

func appendScript(b []byte, url string) []byte {
	b = append(b, `<script type="module" src="`...)
	return append(appendEscaped(b, url), "\"></script>\n"...)
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
	b = append(append(b, "<title>"...), title...)
	if site != "" {
		b = appendEscaped(append(b, " – "...), site)
	}
	b = append(b, "</title>\n<main>\n"...)
	if site != "" {
		b = append(appendEscaped(append(b, "<p>"...), site), "</p>\n"...)
	}
	b = append(b, "<h1"...)
	if other != "" {
		b = append(append(append(b, ` data-else="`...), other...), '"')
	}
	return append(append(append(b, '>'), title...), "</h1>\n"...)
}

// appendCheck appends the element, and leaves its tag open.
func appendCheck(b []byte, refusal *Refusal) []byte {
	b = append(b, `<tally-check endpoint="`...)
	b = appendEscaped(b, refusal.Base)
	if refusal.Cost > 1 { // the endpoint cannot know
		b = append(b, `" cost="`...)
		b = strconv.AppendInt(b, refusal.Cost, 10)
	}
	return append(b, '"')
}

// longestRefresh is how long a page waits by itself. After that nobody is there.
const longestRefresh = time.Minute

// reloads reports whether a page that was asked for is loaded anew by a browser without scripts.
func (r *Refusal) reloads() bool { return r.RoomWait > 0 && r.Wait() <= longestRefresh }

// appendRefresh has the page loaded anew when its wait is over, by a browser that runs
// no script. Nothing on it could be lost.
func appendRefresh(b []byte, r *Refusal) []byte {
	b = append(b, `<noscript><meta http-equiv="refresh" content="`...)
	b = strconv.AppendInt(b, int64(r.Wait()/time.Second), 10)
	return append(b, "\"></noscript>"...)
}
