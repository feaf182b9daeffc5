// SPDX-License-Identifier: Apache-2.0

package keptform_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/proof/kit"
)

// The page has the element, which needs the endpoints: a program without them is told so, as with the built-in page. A
// handler of the program's may have a script of its own, and is left alone.
func TestMissingEndpointsAreTold(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.Handler
		told    bool
	}{
		"keptform":  {keptform.Handler{Title: "A wiki"}, true},
		"built-in":  {nil, true},
		"another's": {http.NotFoundHandler(), false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			limit := kit.Must(middleware.New(middleware.Config{
				Policy:      "signup",
				Limits:      []middleware.Limit{{Quota: 10, Window: time.Hour}},
				Secrets:     [][]byte{bytes.Repeat([]byte("0123456789abcdef"), 2)},
				Challenge:   &middleware.Challenge{Mode: middleware.Newcomers},
				PageHandler: test.handler,
				Logger:      slog.New(slog.NewTextHandler(&log, nil)),
			}))(t)
			r := httptest.NewRequest(http.MethodPost, "/signup", strings.NewReader("a=b"))
			r.Header.Set("Accept", "text/html")
			limit.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, test.told, strings.Contains(log.String(), "code=form-unsolvable"), &log)
		})
	}
}
