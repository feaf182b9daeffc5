// SPDX-License-Identifier: Apache-2.0

package tallygin_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/middleware/recipes/tallygin"
	"github.com/tallystick/tallystick/proof/kit"
)

func engine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) }))
	return router
}

// naive is the adapter that is found in most answers.
func naive(limit *middleware.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		limit.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
	}
}

// answers are the ways in which handlers of gin write.
var answers = []struct {
	name   string
	handle gin.HandlerFunc
	status int
	body   string
}{
	{"String", func(c *gin.Context) { c.String(http.StatusOK, "hello") }, http.StatusOK, "hello"},
	{"JSON", func(c *gin.Context) { c.JSON(http.StatusCreated, gin.H{"a": 1}) }, http.StatusCreated, `{"a":1}`},
	{"Data", func(c *gin.Context) { c.Data(http.StatusOK, "text/plain", []byte("hello")) }, http.StatusOK, "hello"},
	{"Writer.WriteString", func(c *gin.Context) { _, _ = c.Writer.WriteString("hello") }, http.StatusOK, "hello"},
	{"Status", func(c *gin.Context) { c.Status(http.StatusNoContent) }, http.StatusNoContent, ""},
	{"Status and a field after it", func(c *gin.Context) {
		c.Status(http.StatusAccepted)
		c.Header("X-Late", "1")
		c.String(http.StatusOK, "hello")
	}, http.StatusOK, "hello"},
	{"Redirect", func(c *gin.Context) { c.Redirect(http.StatusSeeOther, "/elsewhere") }, http.StatusSeeOther, "*"},
	{"AbortWithStatus", func(c *gin.Context) { c.AbortWithStatus(http.StatusTeapot) }, http.StatusTeapot, ""},
	{"AbortWithStatusJSON", func(c *gin.Context) { c.AbortWithStatusJSON(http.StatusConflict, 1) }, http.StatusConflict, "1"},
	{"AbortWithError", func(c *gin.Context) { _ = c.AbortWithError(http.StatusBadGateway, errors.New("down")) }, http.StatusBadGateway, ""},
	{"nothing", func(*gin.Context) {}, http.StatusOK, ""},
	{"panic", func(*gin.Context) { panic("oh") }, http.StatusInternalServerError, ""},
	{"Flush first", func(c *gin.Context) { c.Writer.Flush(); c.String(http.StatusOK, "hello") }, http.StatusOK, "hello"},
	{"a controller's Flush first", func(c *gin.Context) {
		_ = http.NewResponseController(c.Writer).Flush()
		c.String(http.StatusOK, "hello")
	}, http.StatusOK, "hello"},
	{"an http.Handler", gin.WrapF(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), http.StatusOK, "hello"},
	{"ServeContent", func(c *gin.Context) {
		http.ServeContent(c.Writer, c.Request, "a.txt", loopback.Start, strings.NewReader("hello"))
	}, http.StatusOK, "hello"},
}

func TestEveryAnswerHasTheFields(t *testing.T) {
	for _, a := range answers {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(method+" "+a.name, func(t *testing.T) {
				ran := 0
				router := engine()
				router.Use(tallygin.Handler(loopback.New(t, loopback.Config("gin", 2))))
				router.Handle(method, "/", func(c *gin.Context) {
					ran++
					d, ok := middleware.FromContext(c.Request.Context())
					require.True(t, ok, "the decision is in the request's context")
					require.True(t, d.Allowed)
					a.handle(c)
				})
				url := loopback.Serve(t, router)

				first := loopback.Send(t, method, url, "")
				require.Equal(t, a.status, first.Status)
				if a.body != "*" {
					require.Equal(t, a.body, first.Body)
				}
				loopback.RequireFields(t, first, `"gin";r=1;t=60`)
				// By the cookie, and by the field.
				second := loopback.Send(t, method, url, "", "Cookie", strings.Split(first.Header.Get("Set-Cookie"), ";")[0])
				require.Equal(t, a.status, second.Status)
				require.Equal(t, `"gin";r=0;t=60`, second.Left())
				require.Contains(t, second.Header.Get("Set-Cookie"), "__Host-tallystick-gin=")
				require.Empty(t, second.Token(), "answered by the channel it came by")

				refused := loopback.Send(t, method, url, "", middleware.TokenHeader, first.Token())
				require.Equal(t, http.StatusTooManyRequests, refused.Status)
				require.NotEmpty(t, refused.Header.Get("Retry-After"))
				require.Equal(t, "application/problem+json", refused.Header.Get("Content-Type"))
				require.Equal(t, 2, ran, "a refusal ends the chain")
			})
		}
	}
}

// The trap: should the usual adapter ever do, this package is not needed any more.
func TestTheUsualAdapterLosesTheFieldsOfGET(t *testing.T) {
	router := engine()
	limit := loopback.New(t, loopback.Config("gin", 1))
	ran := 0
	router.Any("/", naive(limit), func(c *gin.Context) { ran++; c.String(http.StatusOK, "hello") })
	url := loopback.Serve(t, router)
	lost := loopback.Send(t, http.MethodGet, url, "")
	require.Equal(t, http.StatusOK, lost.Status)
	require.Empty(t, lost.Left())
	require.Empty(t, lost.Token())
	require.Empty(t, lost.Header.Get("Set-Cookie"))
	refused := loopback.Send(t, http.MethodGet, url, "")
	require.Equal(t, http.StatusTooManyRequests, refused.Status)
	require.Equal(t, 2, ran, "the handler has run although the request was refused")
}

// What others may cache carries no token: the handler says so before, between and after gin's status.
func TestPubliclyCacheable(t *testing.T) {
	router := engine()
	router.Use(tallygin.Handler(loopback.New(t, loopback.Config("gin", 5))))
	router.GET("/", func(c *gin.Context) {
		c.Status(http.StatusOK)
		c.Header("Cache-Control", "public, max-age=60")
		_, _ = c.Writer.WriteString("for everybody")
	})
	a := loopback.Send(t, http.MethodGet, loopback.Serve(t, router), "")
	require.Equal(t, "public, max-age=60", a.Header.Get("Cache-Control"))
	require.Empty(t, a.Token())
	require.Empty(t, a.Left())
}

// Each event is with the client before the next is made: the handler waits for that.
func TestStreams(t *testing.T) {
	seen := make(chan struct{})
	router := engine()
	router.Use(tallygin.Handler(loopback.New(t, loopback.Config("gin", 5))))
	router.GET("/", func(c *gin.Context) {
		sent := 0
		c.Stream(func(io.Writer) bool {
			c.SSEvent("count", sent)
			sent++
			if sent == 3 {
				return false
			}
			c.Writer.Flush()
			select {
			case <-seen:
				return true
			case <-c.Request.Context().Done(): // the test has failed
				return false
			}
		})
	})
	resp := kit.Must(http.Get(loopback.Serve(t, router)))(t)
	defer resp.Body.Close()
	require.Equal(t, `"gin";r=4;t=60`, resp.Header.Get("RateLimit"))
	require.NotEmpty(t, resp.Header.Get(middleware.TokenHeader))
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		require.True(t, lines.Scan())
		require.Equal(t, "event:count", lines.Text())
		require.True(t, lines.Scan())
		require.Equal(t, "data:"+string(rune('0'+i)), lines.Text())
		require.True(t, lines.Scan())
		if i < 2 {
			seen <- struct{}{}
		}
	}
	require.False(t, lines.Scan())
}

// A connection that is taken over is the handler's, with the place that it held.
func TestHijack(t *testing.T) {
	router := engine()
	cfg := loopback.Config("gin", 9)
	cfg.Concurrency = &middleware.Concurrency{Max: 1}
	router.Use(tallygin.Handler(loopback.New(t, cfg)))
	router.GET("/", func(c *gin.Context) {
		if c.GetHeader("Upgrade") == "" {
			c.String(http.StatusOK, "there is room")
			return
		}
		conn, buf, err := c.Writer.Hijack()
		if err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		go func() { // until the client closes
			_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = buf.Flush()
			_, _ = io.Copy(conn, buf)
			_ = conn.Close()
		}()
	})
	url := loopback.Serve(t, router)
	conn := kit.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	defer conn.Close()
	kit.Must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n"))(t)
	in := bufio.NewReader(conn)
	resp := kit.Must(http.ReadResponse(in, nil))(t)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	echo := kit.Must(in.ReadString('\n'))(t)
	require.Equal(t, "hello\n", echo)
	// The handler has returned, or is about to. The connection counts for as long as it is open.
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodGet, url, "").Status)
}

// Two policies in one chain: each has its fields, and each can refuse.
func TestStacked(t *testing.T) {
	router := engine()
	router.Use(tallygin.Handler(loopback.New(t, loopback.Config("site", 3))))
	router.GET("/", tallygin.Handler(loopback.New(t, loopback.Config("page", 1))), func(c *gin.Context) { c.String(http.StatusOK, "hello") })
	url := loopback.Serve(t, router)
	first := loopback.Send(t, http.MethodGet, url, "")
	require.Equal(t, http.StatusOK, first.Status)
	require.Equal(t, []string{`"site";r=2;t=60`, `"page";r=0;t=60`}, first.Header.Values("RateLimit"))
	require.Len(t, first.Header.Values(middleware.TokenHeader), 2)
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodGet, url, "").Status)
}

// A handler's status is the outcome, also one that gin sends only after the chain. What is
// made outside of the limiter, from c.Errors, is no outcome: it is charged.
func TestOutcomes(t *testing.T) {
	outer := func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			c.JSON(http.StatusUnauthorized, gin.H{"error": "wrong"})
		}
	}
	for _, row := range []struct {
		name   string
		handle gin.HandlerFunc
		status int
		left   string // of what fails
	}{
		{"sent at once, free", func(c *gin.Context) { c.String(http.StatusOK, "in") }, http.StatusOK, "free"},
		{"sent after the chain, free", func(c *gin.Context) { c.Redirect(http.StatusSeeOther, "/") }, http.StatusSeeOther, "free"},
		{"sent at once, charged", func(c *gin.Context) { c.String(http.StatusUnauthorized, "no") }, http.StatusUnauthorized, "charged"},
		{"sent after the chain, charged", func(c *gin.Context) { c.Status(http.StatusUnauthorized) }, http.StatusUnauthorized, "charged"},
		{"decided outside", func(c *gin.Context) { _ = c.Error(errors.New("no")) }, http.StatusUnauthorized, "charged"},
		{"decided outside, after another", func(c *gin.Context) { c.Status(http.StatusOK); _ = c.Error(errors.New("no")) }, http.StatusUnauthorized, "charged"},
		{"never said", func(*gin.Context) {}, http.StatusOK, "charged"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := loopback.Config("login", 9)
			cfg.Limits[0].Name = "attempts"
			cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "failures", Quota: 1, Window: cfg.Limits[0].Window})
			cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"failures"}, Free: []int{http.StatusOK, http.StatusSeeOther}}
			router := engine()
			router.Use(outer)
			router.POST("/", tallygin.Handler(loopback.New(t, cfg)), row.handle)
			url := loopback.Serve(t, router)
			first := loopback.Send(t, http.MethodPost, url, "")
			require.Equal(t, row.status, first.Status)
			want := row.status
			if row.left == "charged" {
				want = http.StatusTooManyRequests
			}
			require.Equal(t, want, loopback.Send(t, http.MethodPost, url, "").Status)
		})
	}
}
