// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// What happens to a client that does all right is what each case says.
func TestCasesAreWhatTheySay(t *testing.T) {
	want := map[string]string{
		"echo":           "200 200 200 200 200",
		"two-policies":   "200 200 200",
		"two-things":     "200 200 200 200",
		"rotation":       "200 200 200 200 200",
		"lost-answer":    "200 0 200",
		"other-origin":   "200 307 200 200",
		"wait":           "200 200 429:over-limit:wait 200",
		"unavailable":    "200 503:counter-down:wait 200",
		"degraded":       "200 200 200",
		"work":           "403:no-token 200:proof 200 200",
		"work-or-wait":   "200 200 200 200 429:over-limit:wait 200:proof 200",
		"work-each-time": "403:no-token 200:proof 403:no-token 200:proof 403:no-token 200:proof",
		"proof-unread":   "403:no-token 503:identity-unavailable:wait:proof 200:proof 200",
		"expired":        "403:no-token 403:expired:proof 200:proof 200",
		"price-risen":    "403:no-token 403:price-risen:proof 200:proof 200",
		"never-accepted": "403:no-token 403:expired:proof 403:expired:proof 403:expired:proof",
		"memory-full":    "403:no-token 403:memory-full:proof 403:memory-full:proof 403:memory-full:proof",
		"too-dear":       "403:no-token",
		"never":          "403:cost-above-quota",
	}
	kit.Bubble(t, func(t *testing.T) {
		degraded := 0
		report := play(t, newServer(t), func(base http.RoundTripper) http.RoundTripper {
			return &client.Transport{Workers: 1, Base: receiving(func(resp *http.Response) {
				if resp.Header.Get("Tallystick-Degraded") == "?1" {
					degraded++
				}
			})(base)}
		})
		require.Equal(t, 4, degraded, "and once where the counter is down and nothing goes on")
		require.Len(t, report.Cases, len(want))
		for _, c := range report.Cases {
			var got []string
			for _, s := range c.Sends {
				said := fmt.Sprint(s.Status)
				if s.Reason != "" {
					said += ":" + s.Reason
				}
				if s.RetryAfter > 0 {
					said += ":wait"
				}
				if s.Proof {
					said += ":proof"
				}
				got = append(got, said)
			}
			require.Equal(t, want[c.Case], strings.Join(got, " "), c.Case)
		}
	})
}

// The server as a client in another language meets it.
func TestOverHTTP(t *testing.T) {
	script := newServer(t)
	server := httptest.NewServer(script)
	defer server.Close()
	get := func(path, accept string) (*http.Response, []byte) {
		req := kit.Must(http.NewRequest(http.MethodGet, server.URL+path, nil))(t)
		req.Header.Set("Accept", accept)
		resp := kit.Must(server.Client().Do(req))(t)
		defer resp.Body.Close()
		body := kit.Must(io.ReadAll(resp.Body))(t)
		return resp, body
	}
	_, b := get("/cases", "*/*")
	var cases []clienttest.Case
	require.NoError(t, json.Unmarshal(b, &cases))
	require.Equal(t, script.Cases(server.URL), cases)
	require.Equal(t, clienttest.Request{Method: "POST", URL: server.URL + "/run/echo?call=1", Body: "request 1 of echo"}, cases[0].Requests[0])

	_, b = get("/report", "application/json")
	var report clienttest.Report
	require.NoError(t, json.Unmarshal(b, &report))
	require.Equal(t, script.Report(), report)
	require.Equal(t, len(cases), report.Missing)
	resp, b := get("/report", "text/plain")
	require.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Equal(t, script.Report().String(), string(b))
	require.Contains(t, string(b), fmt.Sprintf("0 passed, 0 returned, 0 failed, %d missing\n", len(cases)))

	for path, status := range map[string]int{
		"/": 404, "/run/nothing?call=1": 404, "/run/echo": 400, "/run/echo?call=0": 400, "/run/echo?call=6": 400, "/run/echo?call=x": 400,
	} {
		resp, _ := get(path, "*/*")
		require.Equal(t, status, resp.StatusCode, path)
	}
	require.Equal(t, len(cases), script.Report().Missing, "none of these is a request of a case")

	resp, _ = get("/run/lost-answer?call=2", "*/*")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err := server.Client().Post(server.URL+"/run/lost-answer?call=3", "text/plain", nil)
	require.Error(t, err, "the second is cut off")
}

// While the clock stands still no wait ever ends.
func TestTheClockOfTheServer(t *testing.T) {
	clock := middlewaretest.NewClock()
	script := kit.Must(clienttest.New(clock.Now))(t)
	send := func(call int) int {
		resp := kit.Must(middlewaretest.Script(script, "").Post(fmt.Sprintf("%s/run/wait?call=%d", home, call), "", nil))(t)
		return resp.StatusCode
	}
	faults := func() (codes []string) {
		for _, c := range script.Report().Cases {
			for _, f := range c.Faults {
				if f.Code != "token-dropped" { // of a client for each request
					codes = append(codes, f.Code)
				}
			}
		}
		return codes
	}
	require.Equal(t, []int{200, 200, 429}, []int{send(1), send(2), send(3)})
	clock.Advance(900 * time.Millisecond)
	require.Equal(t, 429, send(3), "and no time has passed for the limits")
	require.Equal(t, []string{"too-early"}, faults())
	clock.Advance(2 * time.Second)
	require.Equal(t, 200, send(3))
	require.Len(t, faults(), 1)
}

// A client drops tokens that have expired.
func TestExpiredTokensNeedNotBeShown(t *testing.T) {
	for passed, want := range map[time.Duration]string{time.Hour / 2: "failed", 3 * time.Hour: "passed"} {
		clock := middlewaretest.NewClock()
		script := kit.Must(clienttest.New(clock.Now))(t)
		for _, r := range script.Cases(home)[0].Requests {
			resp := kit.Must(middlewaretest.Forgetful(script, "").Post(r.URL, "", strings.NewReader(r.Body)))(t)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			clock.Advance(passed)
		}
		require.Equal(t, want, script.Report().Cases[0].Verdict)
	}
}

const home = "http://home.example"

// play has a client do all cases, and returns the report. The transport is what the client
// sends by; its requests go straight to the server.
func play(t testing.TB, script *clienttest.Server, client func(http.RoundTripper) http.RoundTripper) clienttest.Report {
	t.Helper()
	c := &http.Client{Transport: client(middlewaretest.Direct(script, "192.0.2.7"))}
	for _, todo := range script.Cases(home) {
		for _, r := range todo.Requests {
			req := kit.Must(http.NewRequest(r.Method, r.URL, strings.NewReader(r.Body)))(t)
			resp, err := c.Do(req)
			if err == nil {
				kit.Must(io.Copy(io.Discard, resp.Body))(t)
				require.NoError(t, resp.Body.Close())
			}
		}
	}
	return script.Report()
}

func newServer(t testing.TB) *clienttest.Server {
	t.Helper()
	return kit.Must(clienttest.New(nil))(t)
}

// rows returns the rows of the table of docs/clients.md with this head, as "name: text".
func rows(t *testing.T, head string) (all []string) {
	t.Helper()
	_, tables, err := pages.Read("../../docs/clients.md")
	require.NoError(t, err)
	for _, table := range tables {
		if table.Head == head {
			for _, row := range table.Rows {
				all = append(all, strings.Trim(row[0], "`")+": "+strings.ReplaceAll(row[1], "`", ""))
			}
		}
	}
	return all
}

// The page has a row for each verdict and each fault of the package, in their order.
func TestPageHasEveryCode(t *testing.T) {
	all := kit.Must(pages.Constants("."))(t)
	want := map[string][]string{}
	for _, c := range all {
		want[c.Type] = append(want[c.Type], c.Value)
	}
	for typ, head := range map[string]string{"verdict": "| verdict | what it says |", "code": "| code | what the client did |"} {
		var named []string
		for _, row := range rows(t, head) {
			name, _, _ := strings.Cut(row, ": ")
			named = append(named, name)
		}
		require.NotEmpty(t, want[typ])
		require.Equal(t, want[typ], named)
	}
}
