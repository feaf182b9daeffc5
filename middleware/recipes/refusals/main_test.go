// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/middleware/refusallog"
	"github.com/tallystick/tallystick/proof/kit"
)

// The page names the clients that were refused, the worst first, by the pseudonyms that it tells of their addresses.
func TestThePageNamesTheRefused(t *testing.T) {
	var logged bytes.Buffer
	now := loopback.Start
	p := newPage(refusallog.Config{Now: func() time.Time { return now }}, &logged)
	cfg := loopback.Config("contact", 2)
	identity := kit.Must(middleware.ForwardedFor(netip.MustParsePrefix("127.0.0.0/8")))(t)
	cfg.Identity, cfg.OnDecision = identity, p.refusals.OnDecision
	limit := loopback.New(t, cfg)
	site := loopback.Serve(t, limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	admin := loopback.Serve(t, p.Handler(limit))
	require.Empty(t, loopback.Send(t, http.MethodGet, admin, "").Body)
	for _, addr := range slices.Concat(slices.Repeat([]string{"192.0.2.7"}, 9), slices.Repeat([]string{"192.0.2.8"}, 4), slices.Repeat([]string{"192.0.2.9"}, 2)) {
		loopback.Send(t, http.MethodGet, site, "", "X-Forwarded-For", addr)
	}
	pseudonym := func(addr, left string) string {
		said := loopback.Send(t, http.MethodGet, admin+"?address="+addr, "").Body
		found := regexp.MustCompile(`^` + regexp.QuoteMeta(addr) + ` is (\S+)\ncontact: ` + left + ` of 2 left\n$`).FindStringSubmatch(said)
		require.NotNil(t, found, said)
		return found[1]
	}
	seven, eight := pseudonym("192.0.2.7", "0"), pseudonym("192.0.2.8", "0")
	pseudonym("192.0.2.10", "2")
	page := loopback.Send(t, http.MethodGet, admin, "").Body
	require.Contains(t, page, "clients=2")
	require.Contains(t, page, fmt.Sprintf(`most="%s=6 `, seven))
	require.Contains(t, page, eight+"=2 ")
	require.NotContains(t, page, "192.0.2.", "no address is in the log")
	require.Equal(t, page, reversed(logged.String()), "all of it is in the log too")
	require.Equal(t, http.StatusOK, loopback.Send(t, http.MethodGet, admin+"?address=nobody", "").Status)
}

func reversed(lines string) (out string) {
	for line := range strings.Lines(lines) {
		out = line + out
	}
	return out
}

// A flood fills no memory.
func TestThePageKeepsAHundredLines(t *testing.T) {
	p := new(page)
	for n := range 150 {
		kit.Must(fmt.Fprintln(p, n))(t)
	}
	require.Len(t, p.lines, 100)
	require.Equal(t, "50\n", string(p.lines[0]))
}
