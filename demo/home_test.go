// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestHomePageHasAnAttackBeforeAnyScript(t *testing.T) {
	d := start(t, 3)
	page := d.client(t).do("GET", "/", "", "Accept: text/html")
	require.Equal(t, 200, page.StatusCode)
	for _, part := range []string{"Nothing above its bound, no honest visitor refused.", `class="curve honest"`, "N·L = 15", html.EscapeString(firstLines)} {
		require.True(t, strings.Contains(page.body, part), part)
	}

	after := d.client(t).do("GET", "/attack?instances=10&limit=20&work=on", "", "Accept: text/html")
	require.Equal(t, 200, after.StatusCode)
	require.True(t, strings.Contains(after.body, "<td>800</td><td>800</td>"), "a form without a script has the attack played to its end")

	for _, query := range []string{"", "instances=0&limit=5", "instances=3&limit=1000", "instances=x&limit=5", "instances=3&limit=99999999999999999999"} {
		require.Equal(t, 400, d.client(t).do("GET", "/attack?"+query, "").StatusCode, query)
	}
}

// The template has the lines and the numbers beside the price, and the middleware the curve: they meet.
func TestThePriceMeetsItsNumbers(t *testing.T) {
	h := kit.Must(newHome(3))(t)
	points := strings.FieldsFunc(h.price, func(r rune) bool { return r == 'M' || r == 'L' })
	require.Len(t, points, 257)
	page := start(t, 1).client(t).do("GET", "/", "")
	for sold, at := range map[int]string{0: "0.0 185.5", 64: "160.0 173.0", 128: "320.0 148.0", 192: "480.0 98.0", 256: "640.0 -2.0"} {
		require.Equal(t, at, points[sold])
		x, y, _ := strings.Cut(strings.ReplaceAll(at, ".0", ""), " ")
		require.Contains(t, page.body, fmt.Sprintf(">%d</text>", sold))
		if sold != 0 {
			require.Contains(t, page.body, "M"+x+" -2V198")
		}
		if sold != 64 { // which is too near to the first
			require.Contains(t, page.body, "M0 "+y+"H640")
		}
	}
}

// stream asks for an attack, as the script of the page does.
func stream(ctx context.Context, query string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/attack?"+query, nil)
	r.Header.Set("Accept", "text/event-stream")
	return r
}

// pictures are the messages of a stream.
func pictures(body string) []string { return strings.Split(strings.TrimSpace(body), "\n\n") }

func TestAttackIsAStreamOfPictures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := kit.Must(newHome(3))(t)
		w := httptest.NewRecorder()
		h.attack(w, stream(t.Context(), "instances=3&limit=5&work=on"))
		all := pictures(w.Body.String())
		require.Len(t, all, attackFrames+1)
		require.Contains(t, all[0], `data: <div id="arena">`)
		require.Contains(t, all[attackFrames-1], "works for 3 tallies")
		require.True(t, strings.HasPrefix(all[attackFrames], "event: end"))
		require.Zero(t, h.open.Load())
	})
}

func TestAttackEndsWithItsVisitor(t *testing.T) {
	for name, end := range map[string]func(h *home, leave func()){
		"that leaves":   func(_ *home, leave func()) { leave() },
		"with the demo": func(h *home, _ func()) { h.close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := kit.Must(newHome(3))(t)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				w := httptest.NewRecorder()
				go h.attack(w, stream(ctx, "instances=3&limit=5"))
				synctest.Wait()
				require.EqualValues(t, 1, h.open.Load())
				end(h, leave)
				synctest.Wait()
				require.Zero(t, h.open.Load())
				require.Less(t, len(pictures(w.Body.String())), attackFrames)
			})
		})
	}
}

func TestAttacksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := kit.Must(newHome(3))(t)
		ctx, leave := context.WithCancel(t.Context())
		for range mostAttacks {
			go h.attack(httptest.NewRecorder(), stream(ctx, "instances=3&limit=5"))
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		h.attack(w, stream(ctx, "instances=3&limit=5"))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		leave()
		synctest.Wait()
		require.Zero(t, h.open.Load())
	})
}

func TestAttackInATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, attack(t.Context(), options{instances: 3, attack: true, stdout: &out}))
		require.Equal(t, 10, strings.Count(out.String(), "client   most in a minute   bound   refused"))
		require.Regexp(t, `throws its token away +15 +15 +\d+`, out.String())
		require.Regexp(t, `works for 3 tallies +60 +60 +\d+`, out.String())
		require.True(t, strings.HasSuffix(out.String(), "Nothing above its bound, no honest visitor refused.\n"))
	})
}

// The picture of the README is what the command draws.
func TestPictureOfTheReadme(t *testing.T) {
	name := filepath.Join(t.TempDir(), "attack.svg")
	require.NoError(t, attack(t.Context(), options{instances: 3, picture: name}))
	drawn := kit.Must(os.ReadFile(name))(t)
	committed := kit.Must(os.ReadFile("../docs/attack.svg"))(t)
	require.Equal(t, string(committed), string(drawn), "go run ./demo -picture docs/attack.svg")
}

func TestTheTerminalHasTheAddressFirst(t *testing.T) {
	first, rest, _ := strings.Cut(welcome, "\n")
	require.Equal(t, "Listening on http://%[1]s/", first)
	require.Less(t, strings.Count(rest, "\n"), 9)
}

// The home page shows the same seven lines as the README's first program.
func TestTheSevenLinesAreTheReadmes(t *testing.T) {
	readme := kit.Must(os.ReadFile("../README.md"))(t)
	require.Contains(t, string(readme), "\t"+strings.ReplaceAll(firstLines, "\n", "\n\t"))
	require.True(t, strings.HasPrefix(firstLines, "limit, err := middleware.New("))
	require.True(t, strings.HasSuffix(firstLines, `http.Handle("POST /contact", limit.Handler(http.HandlerFunc(contact)))`))
	lines := 0
	for line := range strings.Lines(firstLines) {
		if strings.ContainsFunc(line, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
			lines++
		}
	}
	require.Equal(t, 7, lines, "braces apart")
}
