// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strconv"
	"strings"
	"time"
)

// The words of the pages in a language. A %s is what the code puts in.
type words struct {
	language string

	// Of the page in place of one that was asked for.
	moment  string // its title, where a script has that one opened
	opens   string // what happens, and why
	takes   string // how long: %s, until the element knows better
	opening string // what the element says at the end of its work
	waits   string // what becomes of the page then
	retry   string // the element's button
	stuck   string // the page was refused again, or cannot know how often
	reload  string // the link
	reloads string // %s: when the page is loaded again without any script
	refused string // its title otherwise
	tooMany string // its title: a limit
	later   string // %s: a time

	// Of the page that keeps a form.
	title    string
	many     string // the cause: a limit
	check    string // the cause: a proof
	setup    string // the cause: a site whose instances disagree
	kept     string
	goBack   string
	script   string // nothing else helps
	unloaded string // the same, of a page that has one
	wait     string // %s: a time
	again    string // the label of a secret, %s: what it is
	name     string // one whose label nobody knows, %s: the name of its field
	send     string
	back     string
	units    [4][2]string // day, hour, minute, second: one, and several, as they follow the number
	secrets  [numSecrets]string
	why      [numWhy]string
}

// A why is why a form cannot be kept.
type why uint8

const (
	isKept why = iota
	whyKind
	whyLong
	whyStrange
	numWhy
)

// A secretKind is what a secret is, as far as its name says.
type secretKind uint8

const (
	notSecret secretKind = iota
	password
	oneTimeCode
	cardCode
	cardNumber
	pin
	otherSecret // whose name is all that people can be told
	numSecrets
)

// appendWait puts how long to wait into a sentence, in the largest unit that does not mislead.
func (w *words) appendWait(b []byte, sentence string, wait time.Duration) []byte {
	sizes := [...]time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	unit := 0
	for unit < len(sizes)-1 && wait < 2*sizes[unit] {
		unit++
	}
	n := int64((wait + sizes[unit] - 1) / sizes[unit])
	name := w.units[unit][1]
	if n == 1 {
		name = w.units[unit][0]
	}
	before, after, _ := strings.Cut(sentence, "%s")
	b = strconv.AppendInt(append(b, before...), n, 10)
	return append(append(b, name...), after...)
}
