// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// docs/wire.md shows what each constant sends, letter for letter.
func TestChoicesOfFieldsAreTrue(t *testing.T) {
	constants := map[string]middleware.Fields{
		"`RateLimitFields`, the default": middleware.RateLimitFields,
		"`XRateLimitInSeconds`":          middleware.XRateLimitInSeconds,
	}
	field := regexp.MustCompile("`([^`:]+): ([^`]+)`")
	rows := tableOf(t, wirePage, "| `Config.Fields` |")
	require.Len(t, rows, len(constants))
	for _, row := range rows {
		chosen, known := constants[row[0]]
		require.True(t, known, row[0])
		limit, err := middleware.New(middleware.Config{
			Policy: "contact",
			Limits: []middleware.Limit{
				{Name: "minute", Algorithm: middleware.FixedWindow, Quota: 2, Window: time.Minute},
				{Name: "day", Algorithm: middleware.FixedWindow, Quota: 5, Window: 24 * time.Hour},
			},
			Secrets: [][]byte{[]byte("a secret of a test, 32 bytes long")},
			Fields:  chosen,
			Now:     func() time.Time { return time.Unix(20_000*86_400+10, 0) },
		})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		limit.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		shown, sent := map[string]string{}, map[string]string{}
		for _, f := range field.FindAllStringSubmatch(row[1], -1) {
			shown[strings.ToLower(f[1])] = f[2]
		}
		for name := range w.Header() {
			if name = strings.ToLower(name); strings.Contains(name, "ratelimit") {
				sent[name] = w.Header().Get(name)
			}
		}
		require.Equal(t, sent, shown, row[0])
	}
}
