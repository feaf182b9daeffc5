// SPDX-License-Identifier: Apache-2.0

// Command request makes the limiter of the README and sends it as many requests as its argument
// says: of one client that echoes its token. The last of four is refused.
package main

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	requests, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 3, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
		Secrets: [][]byte{[]byte("of 32 bytes at least: c0ffee, tea")},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "Thank you.") }))
	cookie := ""
	for range requests {
		r, w := httptest.NewRequest(http.MethodPost, "/contact", http.NoBody), httptest.NewRecorder()
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		handler.ServeHTTP(w, r)
		if set := w.Header().Get("Set-Cookie"); set != "" {
			cookie, _, _ = strings.Cut(set, ";")
		}
		os.Stdout.WriteString(strconv.Itoa(w.Code) + "\n")
	}
}
