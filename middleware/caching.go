package middleware

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// For some shared caches another field comes before Cache-Control (RFC 9213, its
// ancestor, and what vendors have made of it).
const (
	fieldExpires = "Expires"
	fieldEdge    = "Edge-Control"
	fieldAccel   = "X-Accel-Expires"
)

var targeted = [...]string{"Cdn-Cache-Control", "Surrogate-Control",
	"Cloudflare-Cdn-Cache-Control", "Netlify-Cdn-Cache-Control", "Vercel-Cdn-Cache-Control"}

// publiclyCacheable reports whether h lets shared caches keep the response and
// serve it without asking (RFC 9111 sections 3 and 4.2).
func publiclyCacheable(h http.Header, now time.Time) bool {
	lines := h[fieldCache]
	if len(lines) == 0 && future(h[fieldExpires], now) || fresh(lines) {
		return true
	}
	for _, name := range targeted {
		if fresh(h[name]) {
			return true
		}
	}
	edge, accel := h[fieldEdge], h[fieldAccel]
	return len(edge) > 0 && !strings.Contains(strings.ToLower(edge[0]), "no-store") ||
		len(accel) > 0 && accel[0] != "0"
}

// forbidStoring takes away what would be heard before a no-store in Cache-Control.
// Some outer middleware sets it for all of a site, refusals among them.
func forbidStoring(h http.Header) {
	for _, name := range targeted {
		delete(h, name)
	}
	delete(h, fieldEdge)
	delete(h, fieldAccel)
	delete(h, fieldExpires)
}

// future reports whether an Expires field lies ahead. By RFC 9111 section 5.3 what is
// no date, "0" above all, has passed.
func future(lines []string, now time.Time) bool {
	if len(lines) == 0 {
		return false
	}
	at, err := http.ParseTime(lines[0])
	return err == nil && at.After(now)
}

// fresh reports whether the directives give a response a life in shared caches.
func fresh(lines []string) (lives bool) {
	for _, line := range lines {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.Trim(directive, " \t")), "=")
			switch name {
			case "no-store", "private", "no-cache":
				return false
			case "public":
				lives = true
			case "max-age", "s-maxage":
				seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 64)
				lives = lives || err != nil || seconds > 0
			}
		}
	}
	return lives
}
