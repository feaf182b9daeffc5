// SPDX-License-Identifier: Apache-2.0

// Package words has the sentences of the pages, by language.
//
// Translators edit words.txt. It has all sentences, the element's too. "go
// generate" makes the Go of this package and the texts of the element from it,
// so a program links only the sentences that its pages use. A test generates
// both again, and names the line where the file is wrong.
package words

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

//go:generate go test -run ^TestGeneratedFromWords$ . -update

// A Language is a language of the pages.
type Language uint8

// English is for everybody else.
const English Language = 0

// For returns the language of a page that is sent with some fields already, in answer to r. The Content-Language that a
// program has set before is the language of its site. Otherwise the language is what the browser asks for: nothing says
// what language the page was in that has sent a form.
func For(h http.Header, r *http.Request) Language {
	accept := r.Header["Accept-Language"]
	if own := h["Content-Language"]; len(own) > 0 {
		accept = own
	}
	tag := httpfield.Language(accept, tags[:]...)
	for i := range tags {
		if tags[i] == tag {
			return Language(i)
		}
	}
	return English
}

// AppendAttributes appends the attributes of the html element: its language and, if that is written from right to left,
// its direction.
func (l Language) AppendAttributes(b []byte) []byte {
	b = append(append(append(b, ` lang="`...), tags[l]...), '"')
	if leftwards&(1<<l) != 0 {
		b = append(b, ` dir="rtl"`...)
	}
	return b
}

// Page returns the sentences of all pages.
func (l Language) Page() *Page { return &pages[l] }

// Form returns the sentences of the page that keeps a form.
func (l Language) Form() *Form { return &forms[l] }

// AppendWait puts how long to wait into a sentence, in the largest unit that does not mislead.
func (l Language) AppendWait(b []byte, sentence string, wait time.Duration) []byte {
	sizes := [...]time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	unit := 0
	for unit < len(sizes)-1 && wait < 2*sizes[unit] {
		unit++
	}
	n := int64((wait + sizes[unit] - 1) / sizes[unit])
	before, after, _ := cut(sentence)
	left, right, digits := cut(units[l][unit][plurals[l].form(n)])
	b = append(append(b, before...), left...)
	if digits { // some languages have a word for one
		b = strconv.AppendInt(b, n, 10)
	}
	return append(append(b, right...), after...)
}

// cut cuts a text at its {}. A search for one byte is one instruction for 32 bytes.
func cut(text string) (before, after string, found bool) {
	if i := strings.IndexByte(text, '{'); i >= 0 {
		return text[:i], text[i+2:], true
	}
	return text, "", false
}
