// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Each script is written for the kinds of a policy's limits, in order: it has no loop over
// limits, and no test of kinds. Other differences are arguments, so few scripts exist.
//
// A text such as take.lua has lines "--@ load", for which that file stands, and "--@ each fits",
// for which the section "--@ fits" of each limit's kind stands, one after the other. In a
// section, a name that ends in $ gets the number of the limit. Words behind @ are lists, see
// [lists]. "--@ mode charge" stands for that section of booked.lua in scripts that know booked
// calls, and of plain.lua in the others. A plain script that meets an account with a booked call
// does nothing and answers nothing.

//go:embed script/*.lua
var texts embed.FS

// text returns a file of the scripts.
func text(name string) string {
	b, err := texts.ReadFile("script/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// A kind of limits has a file of sections, an entry of some bytes in the account, and words for its lists.
type kind struct {
	file    string
	size    int
	numbers []string
	words   map[string][]string
}

// The kinds, by letters that name a shape.
var kinds = map[byte]kind{
	'S': {"sliding", 17, []string{"quota$", "window$"}, windows},
	'F': {"fixed", 17, []string{"quota$", "window$"}, windows},
	'C': {"calendar", 17, []string{"quota$", "starts$", "ends$"}, windows},
	'B': {"bucket", 13, []string{"interval$", "empties$", "window$"}, map[string][]string{
		"@entries": {"I4c1d"}, "@found": {"has$", "_", "a$"}, "@counts": {"at$"}, "@zero": {"0"}, "@read": {"a$"},
		"@write": {"id$", "'n'", "at$"}, "@keep": {"id$", "'n'", "at$"}, "@stands": {"d"}, "@stood": {"at$"},
	}},
	'T': {"trail", 13, []string{"quota$", "window$"}, map[string][]string{
		"@entries": {"I4c1d"}, "@found": {"has$", "_", "a$"}, "@counts": {"used$", "trail$"}, "@zero": {"-1", "KEYS[#]"}, "@read": {"a$", "trail$"},
		"@write": {"id$", "'n'", "used$ + owed$"}, "@keep": {"id$", "'n'", "stale$ and -1 or used$"}, "@stands": {"c0"}, "@stood": {"stood$"},
	}},
}

// windows are the words of kinds that have an entry of the form w, see account.lua.
var windows = map[string][]string{
	"@entries": {"I4c1I4I4I4"}, "@found": {"has$", "_", "a$", "b$", "c$"}, "@counts": {"at$", "cur$", "prev$"}, "@zero": {"0", "0", "0"}, "@read": {"a$", "b$", "c$"},
	"@write": {"id$", "'w'", "at$", "cur$", "prev$"}, "@keep": {"id$", "'w'", "at$", "cur$", "prev$"}, "@stands": {"I4I4I4"}, "@stood": {"at$", "cur$", "prev$"},
}

// kindOf returns the letter of the i-th limit's kind.
func kindOf(p *exact.Policy, i int) byte {
	if p.Plan().Calendars[i] != nil {
		return 'C'
	}
	switch p.Limit(i).Algorithm {
	case storeless.SlidingWindow:
		return 'S'
	case storeless.FixedWindow:
		return 'F'
	case storeless.SlidingLog, storeless.RollingDay:
		return 'T'
	default:
		return 'B'
	}
}

// A shape is the kinds of the limits of a policy, in order; then zeros.
type shape [storeless.MaxLimits]byte

func shapeOf(p *exact.Policy) (s shape) {
	for i := range p.Len() {
		s[i] = kindOf(p, i)
	}
	return s
}

// scripts caches the scripts of used forms. Programs have few policies: beyond maxForms
// one is evicted, and written anew when needed.
type scripts struct {
	clock string // how tests read another clock; "": the server's

	mu   sync.RWMutex
	made map[form]*pair
}

// A form is a shape, and whether its scripts know booked calls.
type form struct {
	shape  shape
	booked bool
}

// A pair is the scripts of a form.
type pair struct{ take, refund *script }

// A script is known to servers by its hash.
type script struct {
	lua *rueidis.Lua
	sha string
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{rueidis.NewLuaScript(text), hex.EncodeToString(sum[:])}
}

const maxForms = 64

func (s *scripts) of(p *exact.Policy, booked bool) *pair {
	of := form{shapeOf(p), booked}
	s.mu.RLock()
	made := s.made[of]
	s.mu.RUnlock()
	if made != nil {
		return made
	}
	made = &pair{newScript(s.write("take", of)), newScript(s.write("refund", of))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = make(map[form]*pair)
	}
	for other := range s.made {
		if len(s.made) < maxForms {
			break
		}
		delete(s.made, other)
	}
	s.made[of] = made
	return made
}

// life is how many seconds an ID is kept: a fifth more than it must.
const life = int64(exact.IDLife/1e9) * 6 / 5

var (
	include = regexp.MustCompile(`(?m)^\s*--@ load\n`)
	mode    = regexp.MustCompile(`(?m)^\s*--@ mode (\w+)\n`)
	each    = regexp.MustCompile(`(?m)^\s*--@ each (\w+)\n`)
	section = regexp.MustCompile(`(?m)^--@ (\w+)\n`)
	ofLimit = regexp.MustCompile(`([A-Za-z_])\$`)
)

// write writes a script of a form.
func (s *scripts) write(name string, of form) string {
	body := include.ReplaceAllLiteralString(text(name), text("load"))
	shared, known := text("account"), sectionsOf("plain")
	if of.booked {
		shared, known = shared+text("line"), sectionsOf("booked")
	}
	if name == "refund" {
		shared += text("back")
	}
	body = mode.ReplaceAllStringFunc(body, func(line string) string { return known[mode.FindStringSubmatch(line)[1]] })
	sections := make(map[string]string)
	for i, letter := range of.shape {
		if letter == 0 {
			break
		}
		for name, text := range sectionsOf(kinds[letter].file) {
			sections[name] += number(text, i)
		}
	}
	body = each.ReplaceAllStringFunc(body, func(line string) string { return sections[each.FindStringSubmatch(line)[1]] })
	body = lists(of).Replace(body)
	if s.clock != "" {
		body = strings.Replace(body, "redis.call('TIME')", s.clock, 1)
	}
	return "local LIFE = " + strconv.FormatInt(life, 10) + "\n" + shared + body
}

// sectionsOf returns the sections of a file.
func sectionsOf(name string) map[string]string {
	all, sections := text(name), make(map[string]string)
	marks := section.FindAllStringSubmatchIndex(all, -1)
	for i, at := range marks {
		ends := len(all)
		if i+1 < len(marks) {
			ends = marks[i+1][0]
		}
		sections[all[at[2]:at[3]]] = all[at[1]:ends]
	}
	return sections
}

// number gives names that end in $ the number of a limit.
func number(text string, limit int) string {
	return ofLimit.ReplaceAllString(text, "${1}"+strconv.Itoa(limit+1))
}

// lists are the words that begin with @ in the texts: lists of variables of all limits, and
// the formats by which they are packed. # is the place of a trail's key.
func lists(of form) *strings.Replacer {
	all := make(map[string][]string)
	size, trails := 0, 0
	for i, letter := range of.shape {
		if letter == 0 {
			break
		}
		k := kinds[letter]
		if size += k.size; letter == 'T' {
			trails++
		}
		add := func(list string, names ...string) {
			for _, name := range names {
				all[list] = append(all[list], number(strings.ReplaceAll(name, "#", strconv.Itoa(1+trails)), i))
			}
		}
		add("@numbers", append([]string{"id$", "cost$"}, k.numbers...)...)
		add("@formats", "I4d"+strings.Repeat("d", len(k.numbers)))
		add("@costs", "cost$")
		add("@wholes", "whole$")
		add("@froms", "from$")
		add("@same", "has$ == id$")
		for list, names := range k.words {
			add(list, names...)
		}
	}
	within, asks := "", ""
	if of.booked {
		within, asks = ", within", "d"
	}
	words := []string{
		"@within", within, "@asks", asks, "@places", strings.Repeat("d", len(all["@froms"])),
		"@size", strconv.Itoa(size), "@hashes", strconv.Itoa(2 + trails),
	}
	for list, names := range all {
		between := ", "
		switch list {
		case "@formats", "@entries", "@stands":
			between = ""
		case "@same":
			between = " and "
		}
		words = append(words, list, strings.Join(names, between))
	}
	return strings.NewReplacer(words...)
}
