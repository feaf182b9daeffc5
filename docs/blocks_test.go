// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/pages"
)

// blocksOf returns the blocks of a language on all pages.
func blocksOf(t *testing.T, language string) (found []pages.Block) {
	t.Helper()
	for _, page := range everyPage(t) {
		blocks, _ := read(t, page)
		for _, b := range blocks {
			if b.Language == language {
				found = append(found, b)
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// signup is the limiter that sells tallies on the pages.
func signup(t *testing.T) *middleware.Middleware {
	t.Helper()
	limit, err := middleware.New(middleware.Config{
		Policy:    "signup",
		Limits:    []middleware.Limit{{Quota: 3, Window: 10 * time.Minute}},
		Secrets:   [][]byte{[]byte(strings.Repeat("s", 32))},
		Challenge: &middleware.Challenge{Mode: middleware.Newcomers, Path: "/tally/signup/"},
		Logger:    slog.New(slog.DiscardHandler), // nobody has mounted the endpoints
	})
	require.NoError(t, err)
	return limit
}

// What a page of HTML names below /tally/signup/ is served by the policy of the Go block
// before it, and the element knows the attributes.
func TestHTMLBlocks(t *testing.T) {
	limit := signup(t)
	status := func(url string) int {
		w := httptest.NewRecorder()
		limit.Endpoints().ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		return w.Code
	}
	for _, b := range blocksOf(t, "html") {
		files := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(b.Text, -1)
		require.NotEmpty(t, files, b.Text)
		for _, file := range files {
			require.Equal(t, http.StatusOK, status(file[1]), file[1])
		}
		element := regexp.MustCompile(`<tally-check endpoint="([^"]+)"></tally-check>`).FindStringSubmatch(b.Text)
		require.NotNil(t, element, b.Text)
		require.Equal(t, http.StatusOK, status(element[1]+"challenge"))
		require.Contains(t, b.Text, `<form method="post" action="/signup">`)
	}
}

// A file of tiers, or of policies, is one that policyfile takes; a problem has the members of a problem
// that is sent.
func TestJSONBlocks(t *testing.T) {
	limit := signup(t)
	w := httptest.NewRecorder()
	limit.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/signup", nil))
	var sent map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &sent))
	sent["challenge"] = "Aa8BCGsA8F8A…"
	for _, b := range blocksOf(t, "json") {
		var printed map[string]any
		require.NoError(t, json.Unmarshal([]byte(b.Text), &printed), "%s:%d", b.Page, b.Line)
		if _, file := printed["policies"]; file {
			require.NoError(t, policyfile.Check("policies.json", []byte(b.Text)))
			continue
		}
		if _, tiers := printed["tiers"]; tiers {
			_, err := policyfile.Tiers("tiers.json", []byte(b.Text))
			require.NoError(t, err)
			continue
		}
		require.Equal(t, sent, printed, "%s:%d", b.Page, b.Line)
	}
}
