// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/middleware"
)

const (
	showroomPolicy = "showroom"
	addressPolicy  = showroomPolicy + "-address"
	showroomPath   = "/" + showroomPolicy
	showroomCookie = "tallystick-" + showroomPolicy // see InsecureCookie in form
)

// A round is what a visitor does from one beginning to the next: a client of its own, which
// keeps its token or throws it away.
type round struct {
	id     string // of the visit, random; "": the browser shows none
	turn   int
	thrown bool
}

// roundCookie says which round a request is of. It is not worth stealing: it opens a view of what
// one browser has done, without its address.
const roundCookie = "demo-round"

var rounds = regexp.MustCompile(`^([A-Za-z0-9_-]{22})\.([0-9]{1,6})\.(kept|thrown)$`)

func newRound() round {
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return round{id: base64.RawURLEncoding.EncodeToString(random)}
}

// roundOf returns the round of a request, the zero round if it shows none.
func roundOf(r *http.Request) round {
	c, err := r.Cookie(roundCookie)
	if err != nil {
		return round{}
	}
	parts := rounds.FindStringSubmatch(c.Value)
	if parts == nil {
		return round{}
	}
	turn, _ := strconv.Atoi(parts[2])
	return round{parts[1], turn, parts[3] == "thrown"}
}

// String is what a round is called in its cookie and its identity.
func (r round) String() string {
	if r.id == "" {
		return "no round"
	}
	return r.id + "." + strconv.Itoa(r.turn) + "." + laneNames[r.lane()]
}

// lane is the row that shows the round.
func (r round) lane() int {
	if r.thrown {
		return thrown
	}
	return kept
}

func (r round) cookie() *http.Cookie {
	return &http.Cookie{Name: roundCookie, Value: r.String(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// The rows of the showroom: a client that keeps its token, one that does not, and one that
// keeps it and has bought.
const (
	kept = iota
	thrown
	bought
)

var laneNames = [...]string{kept: "kept", thrown: "thrown"}

// ofShowroom reports whether a cookie has that name, or is of one of the things that the showroom
// limits by itself: its rounds.
func ofShowroom(name string) bool {
	return name == showroomCookie || strings.HasPrefix(name, showroomCookie+".for.")
}

// shownToken returns the token that a request carries for the showroom, by cookie.
func shownToken(r *http.Request) string { return tokenAmong(r.Cookies()) }

// sentToken returns the token that a response carries for the showroom, by field or by cookie.
func sentToken(h http.Header) string {
	return cmp.Or(h.Get(middleware.TokenHeader), tokenAmong((&http.Response{Header: h}).Cookies()))
}

func tokenAmong(cookies []*http.Cookie) string {
	for _, c := range cookies {
		if _, token, _ := strings.Cut(c.Value, "~"); ofShowroom(c.Name) && strings.Count(token, ".") == 2 {
			return token
		}
	}
	return ""
}
