// SPDX-License-Identifier: Apache-2.0

package tallygin_test

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallygin"
)

// Two messages a minute, on one route of gin.
func ExampleHandler() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 2, Window: time.Minute}},
		Secrets: [][]byte{[]byte("an example is no place for secrets")},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.POST("/contact", tallygin.Handler(limit), func(c *gin.Context) { c.String(http.StatusOK, "Thank you.") })
	for range 3 {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/contact", http.NoBody))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}
