// SPDX-License-Identifier: Apache-2.0

package main

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the forms are to people whose browser runs no script.

var likeForm = []string{likeBrowser, urlencoded, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"}

// kept returns the fields that the page of a refusal holds.
func (a answer) kept() url.Values {
	kept := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(a.body, -1) {
		kept.Add(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	return kept
}

func TestFormsWorkWithoutJavaScript(t *testing.T) {
	for path, form := range map[string]struct {
		body            string
		free, afterWait int
	}{
		"/contact":  {goodContact, 5, 1},
		"/signup":   {goodSignup, 0, 1},
		"/feedback": {goodFeedback, 0, 4},
	} {
		for _, instances := range []int{1, 3} {
			s := start(t, instances)
			c := s.client(t).withJar()
			for range form.free {
				require.Equal(t, http.StatusSeeOther, c.do("POST", path, form.body, likeForm...).StatusCode)
			}
			for i := range form.afterWait {
				s.seconds.Add(5) // each that is let in brings the next ticket
				refused := c.do("POST", path, form.body, likeForm...)
				if i == 0 {
					require.Contains(t, []int{http.StatusForbidden, http.StatusTooManyRequests}, refused.StatusCode)
					require.Contains(t, refused.body, "Try again in 5 seconds.")
					fields := refused.kept()
					if path == "/signup" {
						require.Contains(t, refused.body, `<input type="password" required autofocus name="password">`)
						require.NotContains(t, refused.body, "correct horse")
						fields.Set("password", "correct horse")
					}
					require.Equal(t, form.body, fields.Encode())
					s.seconds.Add(5)
					refused = c.do("POST", path, fields.Encode(), likeForm...)
				}
				require.Equal(t, http.StatusSeeOther, refused.StatusCode, "%s on %d: %s", path, instances, refused.body)
			}
			require.GreaterOrEqual(t, c.do("POST", path, form.body, likeForm...).StatusCode, 400, "%s on %d, one in five", path, instances)
		}
	}
}

func TestRefusalPageNamesTheWait(t *testing.T) {
	a := start(t, 1).client(t).signup(likeBrowser)
	require.Equal(t, http.StatusForbidden, a.StatusCode)
	require.Contains(t, a.body, "Try again in 5s: that works without JavaScript too.", "who may be another site's gets the plain page")
	require.NotContains(t, a.body, "correct horse")
}
