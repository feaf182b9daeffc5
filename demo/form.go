// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"reflect"

	"github.com/go-playground/validator/v10"
)

// A form holds the fields of one of the HTML forms. Its fields have JSON names
// for both carriers and are checked by the tags that validator knows.
type form interface {
	inputs() map[string]*string               // by name
	fill(p *page, problems map[string]string) // for the page that shows it again
}

func (c *contact) fill(p *page, problems map[string]string) {
	p.Contact, p.ContactProblems = *c, problems
}

func (n *newsletter) fill(p *page, problems map[string]string) {
	p.Newsletter, p.NewsletterProblems = *n, problems
}

func (s *signup) fill(p *page, problems map[string]string) {
	p.Signup, p.SignupProblems = *s, problems
	p.Signup.Password = "" // no page shows it again
}

func (f *feedback) fill(p *page, problems map[string]string) {
	p.Feedback, p.FeedbackProblems = *f, problems
}

var rules = func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("json") })
	return v
}()

// check returns what is wrong with f, by field; nil if nothing is.
func check(f form) map[string]string {
	var invalid validator.ValidationErrors
	if !errors.As(rules.Struct(f), &invalid) {
		return nil
	}
	problems := make(map[string]string, len(invalid))
	for _, field := range invalid {
		problems[field.Field()] = explain(field.Tag(), field.Param())
	}
	return problems
}

// explain puts a validator tag into words.
func explain(tag, param string) string {
	switch tag {
	case "required":
		return "This is required."
	case "email":
		return "This is not an e-mail address."
	case "min":
		return "This is shorter than " + param + " characters."
	case "max":
		return "This is longer than " + param + " characters."
	default:
		return "This is not valid."
	}
}
