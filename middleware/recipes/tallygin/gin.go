// SPDX-License-Identifier: Apache-2.0

// Package tallygin puts a limiter of package middleware into a chain of gin.
//
//	router.POST("/contact", tallygin.Handler(limit), contact)
//
// What bites without it: gin has a writer of its own. The adapter that is found in most
// answers hands on the request alone,
//
//	limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		c.Request = r
//		c.Next()
//	})).ServeHTTP(c.Writer, c.Request)
//
// and what the handlers then write goes past w. An answer to GET gets neither a token nor
// any RateLimit field, in silence; and that adapter goes on to the handlers of a request that was
// refused, if nothing aborts the chain.
//
// Order: whatever turns c.Errors into a response belongs inside of the limiter, if limits
// count by outcome: what is decided outside of it comes too late to be an outcome, and is charged.
// gin.Recovery and loggers may be on either side.
//
// The package is one file without other dependencies than gin: copy it, if the module's are too many.
package tallygin

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tallystick/tallystick/middleware"
)

// Handler returns limit as a handler of gin's chain, for a route, a group or the engine.
// A refused request is answered, and its chain aborted. The handlers after it find the
// decision by middleware.FromContext(c.Request.Context()), and so do those before it, once c.Next has
// returned.
func Handler(limit *middleware.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		ginsOwn, passed := c.Writer, false
		// gin takes its contexts from a pool: one must not keep a writer of ours, whatever panics.
		defer func() { c.Writer = ginsOwn }()
		limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			inner := &writer{ResponseWriter: ginsOwn, limited: w}
			c.Writer, c.Request = inner, r
			c.Next()
			inner.conclude(len(c.Errors) > 0)
		})).ServeHTTP(ginsOwn, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// A writer is gin's, except that all it sends goes through the limiter's. gin keeps a status
// until something is written, and handlers change their minds meanwhile: so does this.
type writer struct {
	gin.ResponseWriter // which keeps status and size
	limited            http.ResponseWriter
	said               bool // the handler has said a status
}

// conclude tells the limiter a status that is not sent yet, as after c.Status(204): gin sends it
// when all handlers have returned, by a writer that the limiter does not see. A chain with errors
// may get another status outside of the limiter: then the limiter does not know it.
func (w *writer) conclude(failed bool) {
	if w.said && !failed && !w.Written() {
		w.limited.WriteHeader(w.Status())
	}
}

func (w *writer) Header() http.Header { return w.limited.Header() }

func (w *writer) WriteHeader(status int) {
	w.said = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) WriteHeaderNow() {
	if !w.Written() {
		w.limited.WriteHeader(w.Status())
		w.ResponseWriter.WriteHeaderNow()
	}
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeaderNow()
	return w.limited.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	return io.WriteString(w.limited, s)
}

// Flush implements [http.Flusher], which has no error.
func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.limited).Flush()
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.limited).Hijack()
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.limited }
