// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"reflect"

	"github.com/go-playground/validator/v10"
)

// A form is what one of the HTML forms sends. Its fields have JSON names
// for both carriers and are checked by the tags that validator knows.
type form interface {
	inputs() map[string]*string               // by name
	fill(p *page, problems map[string]string) // for the page that shows it again
}

type contact struct {
	Name    string `json:"name" validate:"required,max=100"`
	Email   string `json:"email" validate:"required,max=254,email"`
	Message string `json:"message" validate:"required,max=5000"`
}

func (c *contact) inputs() map[string]*string {
	return map[string]*string{"name": &c.Name, "email": &c.Email, "message": &c.Message}
}

func (c *contact) fill(p *page, problems map[string]string) {
	p.Contact, p.ContactProblems = *c, problems
}

type newsletter struct {
	Email string `json:"email" validate:"required,max=254,email"`
}

func (n *newsletter) inputs() map[string]*string {
	return map[string]*string{"email": &n.Email}
}

func (n *newsletter) fill(p *page, problems map[string]string) {
	p.Newsletter, p.NewsletterProblems = *n, problems
}

type signup struct {
	Name     string `json:"name" validate:"required,max=100"`
	Email    string `json:"email" validate:"required,max=254,email"`
	Password string `json:"password" validate:"required,min=8,max=100"`
}

func (s *signup) inputs() map[string]*string {
	return map[string]*string{"name": &s.Name, "email": &s.Email, passwordInput: &s.Password}
}

func (s *signup) fill(p *page, problems map[string]string) {
	p.Signup, p.SignupProblems = *s, problems
	p.Signup.Password = "" // no page shows it again
}

type feedback struct {
	Email   string `json:"email" validate:"required,max=254,email"`
	Message string `json:"message" validate:"required,max=5000"`
}

func (f *feedback) inputs() map[string]*string {
	return map[string]*string{"email": &f.Email, "message": &f.Message}
}

func (f *feedback) fill(p *page, problems map[string]string) {
	p.Feedback, p.FeedbackProblems = *f, problems
}

// passwordInput is the one input whose every character counts.
const passwordInput = "password"

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
