// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	expiresField = "Expires"
	accelField   = "X-Accel-Expires"
)

// What the names of fields end in that some shared caches hear before Cache-Control: any
// Something-Cache-Control (RFC 9213; CDN-, Akamai-, Fastly-, X-LiteSpeed- and whatever a
// cache calls itself), and what is older, Surrogate-Control and Edge-Control.
const (
	targeted  = "-Cache-Control"
	surrogate = "Surrogate-Control"
	edge      = "Edge-Control"
)

// publiclyCacheable reports whether h lets shared caches keep the response and serve it without
// asking (RFC 9111 sections 3 and 4.2). If not, own is what it says of caching by itself that
// keeps it out of all shared ones, or nil.
func publiclyCacheable(now time.Time, h http.Header) (public bool, own []string) {
	lines := h[CacheControl]
	d := directives(lines)
	if len(lines) == 0 && future(now, h[expiresField]) || d.lives && !d.forbidden {
		return true, nil
	}
	if d.kept() {
		own = lines
	}
	others := len(h)
	if has(h, CacheControl) {
		others--
	}
	if !heardFirst(h, others) {
		return false, own
	}
	for name, lines := range h {
		if len(lines) > 0 && storing(name) && stored(name, lines) {
			return true, nil
		}
	}
	return false, own
}

func has(h http.Header, name string) bool {
	_, ok := h[name]
	return ok
}

// heardFirst reports whether h has a field that some shared cache hears before Cache-Control.
// others is how many names it has that the caller does not know; Set-Cookie is one of them. Nearly always they have the
// names that follow, and to ask for these costs half of what it costs to begin a walk over a map.
func heardFirst(h http.Header, others int) bool {
	for _, name := range [...]string{"Content-Type", SetCookie, "Location", "Content-Length"} {
		if others == 0 {
			return false
		}
		if has(h, name) {
			others--
		}
	}
	if others == 0 {
		return false
	}
	for name := range h {
		if storing(name) {
			return true
		}
	}
	return false
}

// storing reports whether some shared cache hears the field of this name before
// Cache-Control. Nearly all names are told by their last byte, so that a response
// without such a field pays for one walk over its map.
func storing(name string) bool {
	n := len(name)
	if n == 0 {
		return false
	}
	switch name[n-1] | 0x20 {
	case 'l':
		return n > len(targeted) && strings.EqualFold(name[n-len(targeted):], targeted) ||
			strings.EqualFold(name, surrogate) || strings.EqualFold(name, edge)
	case 's':
		return strings.EqualFold(name, accelField)
	}
	return false
}

// stored reports whether the cache that hears this field may serve the response to all.
func stored(name string, lines []string) bool {
	switch {
	case strings.EqualFold(name, edge):
		return !strings.Contains(strings.ToLower(lines[0]), "no-store")
	case strings.EqualFold(name, accelField):
		return lines[0] != "0"
	}
	return fresh(lines)
}

// ForbidStoring takes away what would be heard before a no-store in Cache-Control.
// Some outer middleware sets it for all of a site, refusals among them.
func ForbidStoring(h http.Header) {
	if len(h) == 0 { // as nearly always: to begin a walk over a map costs
		return
	}
	for name := range h {
		if storing(name) {
			delete(h, name)
		}
	}
	delete(h, expiresField)
}

// future reports whether an Expires field lies ahead. By RFC 9111 section 5.3 what is
// no date, "0" above all, has passed.
func future(now time.Time, lines []string) bool {
	if len(lines) == 0 {
		return false
	}
	at, err := http.ParseTime(lines[0])
	return err == nil && at.After(now)
}

// fresh reports whether the directives give a response a life in shared caches.
func fresh(lines []string) bool {
	d := directives(lines)
	return d.lives && !d.forbidden
}

// keptPrivate reports whether the directives keep a response out of all shared caches.
func keptPrivate(lines []string) bool { return directives(lines).kept() }

// sharing holds what directives say to shared caches.
type sharing struct {
	lives      bool // to serve the response without asking
	forbidden  bool // not to
	unstored   bool // not to store it
	shared     bool // the contrary, or what is for them alone
	understood bool // no-store is for those that do not know the status (RFC 9111 section 5.2.2.3)
}

// kept reports whether all of them keep off. One that hears no-cache may store the response, to
// ask each time; what contradicts itself each of them reads in its own way.
func (s sharing) kept() bool { return s.unstored && !s.shared && !s.understood }

func directives(lines []string) (s sharing) {
	if len(lines) == 1 && lines[0] == NoStore { // ours, nearly always
		return sharing{forbidden: true}
	}
	for _, line := range lines {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.Trim(directive, " \t")), "=")
			switch name {
			case "no-store":
				s.forbidden, s.unstored = true, true
			case "private":
				if value == "" { // else it is about some fields alone, and so is no-cache
					s.forbidden, s.unstored = true, true
				}
			case "no-cache":
				s.forbidden = s.forbidden || value == ""
			case "must-understand":
				s.understood = true
			case "public":
				s.lives, s.shared = true, true
			case "max-age", "s-maxage":
				seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 64)
				s.lives = s.lives || err != nil || seconds > 0
				s.shared = s.shared || name == "s-maxage"
			}
		}
	}
	return s
}

// Unstored keeps errors out of caches, also of caches that store a whole site.
// Otherwise one attacker's request could replace the script by a 405 or a 412, and
// every purchase by another site's 403.
type Unstored struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (u Unstored) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (u Unstored) WriteHeader(status int) {
	if status >= 400 {
		ForbidStoring(u.Header())
		u.Header().Set(CacheControl, NoStore)
	}
	u.ResponseWriter.WriteHeader(status)
}
