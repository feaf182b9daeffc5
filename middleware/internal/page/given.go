// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"net/http"
)

// A Given refusal is one whose answer is left to a handler of the program's. The handler finds it in the context of the
// request.
type Given struct {
	*Refusal

	// PrefersHTML reports whether the client prefers a page to problem details.
	PrefersHTML func() bool

	// Answer writes the built-in answer; site is the name of the site, as AppendPage has it.
	Answer func(w http.ResponseWriter, r *http.Request, site string)

	// SendsScript notes that the handler's own answer has a script, which the browser must fetch.
	SendsScript func(r *http.Request)

	// SentByAnother notes that the handler takes the form for one of another site's page.
	SentByAnother func(r *http.Request)
}

// GivenKey is the key under which a context has a *Given.
type GivenKey struct{}

// GivenIn returns the refusal that a handler is to answer, or nil.
func GivenIn(ctx context.Context) *Given {
	given, _ := ctx.Value(GivenKey{}).(*Given)
	return given
}

// WithElement is embedded by a handler whose pages have the element do the work, as the built-in page does. So a program
// that uses the handler needs the endpoints.
type WithElement struct{}

func (WithElement) hasElement() {}

// HasElement reports whether the pages of a handler are known to have the element.
func HasElement(h http.Handler) bool {
	_, has := h.(interface{ hasElement() })
	return has
}
