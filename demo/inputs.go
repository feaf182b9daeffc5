// SPDX-License-Identifier: Apache-2.0

package main

type contact struct {
	Name    string `json:"name" validate:"required,max=100"`
	Email   string `json:"email" validate:"required,max=254,email"`
	Message string `json:"message" validate:"required,max=5000"`
}

func (c *contact) inputs() map[string]*string {
	return map[string]*string{"name": &c.Name, "email": &c.Email, "message": &c.Message}
}

type newsletter struct {
	Email string `json:"email" validate:"required,max=254,email"`
}

func (n *newsletter) inputs() map[string]*string {
	return map[string]*string{"email": &n.Email}
}

type signup struct {
	Name     string `json:"name" validate:"required,max=100"`
	Email    string `json:"email" validate:"required,max=254,email"`
	Password string `json:"password" validate:"required,min=8,max=100"`
}

func (s *signup) inputs() map[string]*string {
	return map[string]*string{"name": &s.Name, "email": &s.Email, passwordInput: &s.Password}
}

type feedback struct {
	Email   string `json:"email" validate:"required,max=254,email"`
	Message string `json:"message" validate:"required,max=5000"`
}

func (f *feedback) inputs() map[string]*string {
	return map[string]*string{"email": &f.Email, "message": &f.Message}
}

// passwordInput is the one input whose every character counts.
const passwordInput = "password"

// prefilled fills the form, so that there is nothing to type.
var prefilled = contact{Name: "Ada", Email: "ada@example.org", Message: "Who keeps the count?"}
