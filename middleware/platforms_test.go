// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// platforms imitate, for each row of docs/operations.md, what a server there is sent: who connects, where %s is the
// client, and the fields of the platform, where a client at addr has written madeUp into every field that names clients;
// or none, if madeUp is empty. What the platform passes on is there already.
var platforms = map[string]struct {
	peer string
	adds func(r *http.Request, addr, madeUp string)
}{
	"Fly.io": {"172.16.4.2:4711", func(r *http.Request, addr, _ string) {
		forward(r, addr)
		forward(r, "66.241.125.1") // the app's own
		r.Header.Set("Fly-Client-IP", addr)
	}},
	"Cloud Run": {"169.254.169.126:4711", func(r *http.Request, addr, _ string) {
		forward(r, addr)
		r.Header.Set("Forwarded", `for="`+addr+`";proto=https`)
	}},
	"Lambda, function URL": {"%s", keepsTheFirst},
	"Lambda, API Gateway v1 (REST)": {"%s", func(r *http.Request, addr, _ string) {
		forward(r, addr)
		forward(r, fmt.Sprintf("130.176.1.%d", edge.Add(1)%250)) // CloudFront, of an edge-optimized API
	}},
	"Lambda, API Gateway v2 (HTTP)": {"%s", appendsTo},
	"Lambda, ALB":                   {"", appendsTo},
	"Lambda Web Adapter, function URL or API Gateway": {"127.0.0.1:4711", func(r *http.Request, addr, madeUp string) {
		keepsTheFirst(r, addr, madeUp)
		r.Header.Set("X-Amzn-Request-Context", `{"http":{"method":"POST","sourceIp":"`+addr+`"}}`)
		if strings.HasSuffix(addr, "1") { // as well as the other format
			r.Header.Set("X-Amzn-Request-Context", `{"identity":{"userAgent":"curl","sourceIp":"`+addr+`"}}`)
		}
	}},
	"Lambda Web Adapter, ALB": {"127.0.0.1:4711", appendsTo},
	"Cloudflare":              {"173.245.48.9:4711", cloudflare},
	"Cloudflare Tunnel":       {"[::1]:4711", cloudflare},
	"nginx":                   {"127.0.0.1:4711", replaces},
	"nginx, Unix socket":      {"@", replaces},
	"Caddy":                   {"127.0.0.1:4711", replaces},
	"HAProxy, HTTP":           {"127.0.0.1:4711", func(r *http.Request, addr, _ string) { r.Header.Add("X-Forwarded-For", addr) }}, // a line of its own
	"HAProxy, PROXY protocol": {"%s:4711", func(*http.Request, string, string) {}},
}

func appendsTo(r *http.Request, addr, _ string)          { forward(r, addr) }
func replaces(r *http.Request, addr, _ string)           { r.Header.Set("X-Forwarded-For", addr) }
func keepsTheFirst(r *http.Request, addr, madeUp string) { replaces(r, cmp.Or(madeUp, addr), "") } // entry of all

func cloudflare(r *http.Request, addr, _ string) {
	forward(r, addr)
	r.Header.Set("CF-Connecting-IP", addr)
}

// edge counts the machines of an edge: none serves two requests.
var edge atomic.Int64

// forward appends to the list of addresses as most proxies do, in one line.
func forward(r *http.Request, entry string) {
	if before := r.Header.Get("X-Forwarded-For"); before != "" {
		entry = before + ", " + entry
	}
	r.Header.Set("X-Forwarded-For", entry)
}

// docs/operations.md prints this function.
func lambdaClient(r *http.Request) (middleware.Identity, error) {
	var event struct{ HTTP, Identity struct{ SourceIP string } }
	err := json.Unmarshal([]byte(r.Header.Get("X-Amzn-Request-Context")), &event)
	addr, _ := netip.ParseAddr(cmp.Or(event.HTTP.SourceIP, event.Identity.SourceIP))
	return middleware.Address(addr), err
}

// A platformRow is what the documentation says of a platform.
type platformRow struct{ name, trusted, identity string }

func platformRows(t *testing.T) (rows []platformRow) {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "Platform" {
			continue
		}
		rows = append(rows, platformRow{strings.TrimSpace(cells[1]), cells[2], cells[3]})
	}
	return rows
}

// build makes the identity function that a row says, from its words.
func (row platformRow) build(t *testing.T) middleware.IdentityFunc {
	t.Helper()
	var trusted []netip.Prefix
	for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row.trusted, -1) {
		trusted = append(trusted, netip.MustParsePrefix(quoted[1]))
	}
	call := regexp.MustCompile("`(\\w+)(?:\\((?:\"([^\"]+)\")?(?:, )?(trusted\\.\\.\\.)?\\))?`").FindStringSubmatch(row.identity)
	require.NotNil(t, call, row.identity)
	function, header := call[1], call[2]
	require.Equal(t, len(trusted) > 0, call[3] != "", "the networks are in the call")
	var identify middleware.IdentityFunc
	var err error
	switch function {
	case "PeerAddress":
		identify = middleware.PeerAddress
	case "lambdaClient":
		identify = lambdaClient
	case "ForwardedFor":
		identify, err = middleware.ForwardedFor(trusted...)
	case "AddressFromHeader":
		identify, err = middleware.AddressFromHeader(header, trusted...)
	case "InsecureNoPeer":
		identify, err = middleware.InsecureNoPeer(header, trusted...)
	}
	require.NoError(t, err)
	require.NotNil(t, identify, function)
	return identify
}

// On each platform, as its row says: two clients have two quotas, one has one, and what
// a client makes up gains it nothing.
func TestPlatforms(t *testing.T) {
	rows := platformRows(t)
	require.Len(t, rows, len(platforms), "a row is a test")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			platform, known := platforms[row.name]
			require.True(t, known)
			now := new(clock)
			cfg := contact(now)
			cfg.Limits[0].Window = time.Hour
			cfg.Identity = row.build(t)
			h := newSite(t, cfg)
			client := func(addr string, madeUp func(i int) string) (passed int) {
				for i := range 10 {
					now.Advance(time.Second) // so that each is checked
					said := madeUp(i)
					passed += admitted(h, 1, func(r *http.Request) {
						if said != "" {
							with("X-Forwarded-For", said, "Forwarded", "for="+said, "X-Real-IP", said, "True-Client-IP", said, "Fly-Client-IP", said,
								"CF-Connecting-IP", said, "X-Amzn-Request-Context", `{"http":{"sourceIp":"`+said+`"}}`)(r)
						}
						r.RemoteAddr = strings.Replace(platform.peer, "%s", addr, 1)
						platform.adds(r, addr, said)
					})
				}
				return passed
			}
			silent := func(int) string { return "" }
			require.Equal(t, 5, client("203.0.113.1", silent))
			require.Equal(t, 5, client("203.0.113.2", silent), "another client")
			require.Empty(t, h.Log.Lines(), "nothing to mend")
			require.Zero(t, client("203.0.113.1", func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }), "the spent one")
			require.Equal(t, 5, client("203.0.113.3", func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }), "and a new one")
			require.Equal(t, 5, client("203.0.113.4", func(int) string { return "198.51.100.77" }), "who names somebody")
			require.Equal(t, 5, client("198.51.100.77", silent), "has spent nothing of that one's")
		})
	}
}
