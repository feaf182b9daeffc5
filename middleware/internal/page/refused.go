// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strconv"
	"time"
)

// appendHead begins every page.
func appendHead(b []byte, language string) []byte {
	b = append(b, "<!doctype html>\n<html lang=\""...)
	b = append(b, language...)
	return append(b, "\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"...)
}

// AppendPage appends a page for people about a request that was made by a method.
func AppendPage(b []byte, r *Refusal, method string) []byte {
	title, text := http.StatusText(r.Status), "This request cannot be served."
	switch {
	case r.Setup:
		text = speech[0].setup
	case r.Cause == QuotaExceeded:
		text = ""
	case r.Cause == ProofRequired:
		text = "This page needs a short check first, which your browser does by itself. It needs JavaScript for that."
		if r.RoomWait > 0 {
			text += " Without it you can wait."
		}
	}
	b = appendHead(b, "en")
	safe := method == http.MethodGet || method == http.MethodHead
	if safe {
		b = appendRefresh(b, r)
	}
	b = append(b, "<title>"...)
	b = append(b, title...)
	b = append(b, "</title>\n<h1>"...)
	b = append(b, title...)
	b = append(b, "</h1>\n<p>"...)
	b = append(b, text...)
	if wait := r.Wait(); wait > 0 {
		if text != "" {
			b = append(b, ' ')
		}
		b = appendWait(b, wait)
		if safe {
			b = append(b, ` <a href="">Load this page again.</a>`...) // the page's own URL
		} else {
			b = append(b, " Go back to keep what you have written."...)
		}
	}
	return append(b, "</p>\n"...)
}

// longestRefresh is how long a page waits by itself. After that nobody is there.
const longestRefresh = time.Minute

// appendRefresh has the page loaded anew when its wait is over, by a browser that runs
// no script. Nothing on it could be lost.
func appendRefresh(b []byte, r *Refusal) []byte {
	if r.RoomWait == 0 || r.Wait() > longestRefresh {
		return b
	}
	b = append(b, `<noscript><meta http-equiv="refresh" content="`...)
	b = strconv.AppendInt(b, int64(r.Wait()/time.Second), 10)
	return append(b, "\"></noscript>\n"...)
}
