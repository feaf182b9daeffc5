// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tallystick/tallystick/middleware"
)

// A form is one of the site's HTML forms, and the policy that limits it.
type form struct {
	Policy              string // also its path
	Title, Says, Button string
	Fields              []field
	limits              []middleware.Limit
	Challenge           *middleware.Challenge // nil: never
}

// A field is an input. It is required.
type field struct {
	Name, Label, Type string // of HTML; or "textarea"
	Min, Max          int    // characters
	Value, Problem    string // as the page shows them
}

// forms are the site's forms, one for each way to ask for work. They are filled in, so that there is nothing to type.
func forms(o options) []form {
	name := field{Name: "name", Label: "Name", Type: "text", Max: 100, Value: "Ada"}
	email := field{Name: "email", Label: "E-mail", Type: "email", Max: 254, Value: "ada@example.org"}
	message := field{Name: "message", Label: "Message", Type: "textarea", Max: 5000, Value: "Who keeps the count?"}
	password := field{Name: "password", Label: "Password, at least 8 characters", Type: "password", Min: 8, Max: 100}
	return []form{
		{"contact", "Contact", "5 per minute and 50 per day; after that, work buys more", "Send message", []field{name, email, message},
			[]middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}}, o.challenge("contact", middleware.WhenExhausted)},
		{"newsletter", "Newsletter", "10 per minute", "Subscribe", []field{email},
			[]middleware.Limit{{Quota: 10, Window: time.Minute}}, nil},
		{"signup", "Sign up", "3 per 10 minutes; a newcomer works first", "Sign up", []field{name, email, password},
			[]middleware.Limit{{Quota: 3, Window: 10 * time.Minute}}, o.challenge("signup", middleware.Newcomers)},
		{"feedback", "Feedback", "20 per hour; each with a proof of work of its own", "Send feedback", []field{email, message},
			[]middleware.Limit{{Quota: 20, Window: time.Hour}}, o.challenge("feedback", middleware.EveryRequest)},
	}
}

// challenge returns what a policy asks for. Where tallies are sold the work
// cannot be 0: what costs nothing is no limit. There the default stands.
func (o options) challenge(policy string, mode middleware.Mode) *middleware.Challenge {
	return &middleware.Challenge{
		Mode:        mode,
		Work:        o.work,
		NonceOnly:   o.work == 0 && mode == middleware.EveryRequest,
		Crowd:       o.crowd,
		WaitingRoom: 5, // the default; EveryRequest has no waiting room unless asked
		Path:        tallyPath(policy),
	}
}

// tallyPath is where the endpoints of a policy are.
func tallyPath(policy string) string { return "/tally/" + policy + "/" }

// take takes the value of a field, text or a JSON value of another type, and notes what is wrong with it. The spaces
// around it do not count, except in a password.
func (f *field) take(value any) {
	text, isText := value.(string)
	if f.Type != "password" {
		text = strings.TrimSpace(text)
	}
	f.Value = text
	switch count := utf8.RuneCountInString(text); {
	case value != nil && !isText:
		f.Problem = "This is not text."
	case text == "":
		f.Problem = "This is required."
	case count < f.Min:
		f.Problem = fmt.Sprintf("This is shorter than %d characters.", f.Min)
	case count > f.Max:
		f.Problem = fmt.Sprintf("This is longer than %d characters.", f.Max)
	case f.Type == "email":
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
			f.Problem = "This is not an e-mail address."
		}
	}
}
