// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// express starts a program of Node, by a clock that stands still, behind a proxy that names its clients.
func express(t *testing.T) http.Handler {
	t.Helper()
	run := exec.Command("node", "--import", "./stands.mjs", "server.mjs")
	run.Dir, run.Stderr = "testdata/express", os.Stderr
	in, err := run.StdinPipe()
	require.NoError(t, err)
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, run.Wait())
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	to, err := url.Parse("http://127.0.0.1:" + strings.TrimSpace(port))
	require.NoError(t, err)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"] // as proxies append to it
		r.SetXForwarded()
	}}
}

// ofNode are the fields of an answer that net/http and Express add to any.
var ofNode = []string{"Connection", "Content-Length", "Content-Type", "Date", "Etag", "Keep-Alive", "X-Powered-By"}

// The column of the page, as the others. The program of Node has a clock of its own.
func TestColumnOfExpress(t *testing.T) {
	kit.OnlyWhole(t, "starts Node for each of its lines")
	if _, err := exec.LookPath("node"); err != nil {
		kit.Unable(t, "there is no node: %v", err)
	}
	if _, err := os.Stat("testdata/express/node_modules/express-rate-limit"); err != nil {
		kit.Unable(t, "there is no express-rate-limit (.ci/need installs it, by npm)")
	}
	check(t, "express-rate-limit", false, func(find finder) string {
		theirs := find(t, func() http.Handler { return express(t) })
		for _, name := range ofNode {
			theirs = strings.ReplaceAll(theirs, fmt.Sprintf("`%s`", name), "")
		}
		return strings.Join(strings.Fields(theirs), " ")
	})

	h := express(t)
	require.Equal(t, 5, count(20, func(i int) *http.Response { return ask(h, fmt.Sprintf("[2001:db8:0:%x::1]:4711", i)) }), "a /56 is one client")
}
