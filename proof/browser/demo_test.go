// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// A demo is the demo behind a proxy that has browsers report what its own
// Content-Security-Policy blocks.
type demo struct {
	*httptest.Server

	mu      sync.Mutex
	reports []string
}

func startDemo(t *testing.T, program string, flags ...string) *demo {
	t.Helper()
	process := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, flags...)...)
	stdout := kit.Must(process.StdoutPipe())(t)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	})
	line := kit.Must(bufio.NewReader(stdout).ReadString('\n'))(t)
	backend := kit.Must(url.Parse(strings.TrimSpace(strings.TrimPrefix(line, "Listening on "))))(t)

	d := new(demo)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(backend)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(resp *http.Response) error {
			for i, csp := range resp.Header["Content-Security-Policy"] {
				resp.Header["Content-Security-Policy"][i] = csp + "; report-uri /csp-reports"
			}
			return nil
		},
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/csp-reports" {
			proxy.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.reports = append(d.reports, string(bytes.TrimSpace(body)))
	}))
	t.Cleanup(d.Close)
	return d
}

// clean requires that nothing has broken the security policy, and that nothing came
// from elsewhere.
func (d *demo) clean(t *testing.T, b *tab) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Empty(t, d.reports)
	for _, r := range b.loaded("") {
		require.Contains(t, r, " "+d.URL+"/")
	}
}

const accepted = `document.title === "Accepted"`

// write fills in a form of the demo.
func (b *tab) write(form string) {
	b.t.Helper()
	for selector, text := range map[string]string{"name": "Ada", "email": "ada@example.org", "message": "Hello", "password": "correct horse"} {
		field := `form[action="/` + form + `"] [name="` + selector + `"]`
		if eval[bool](b, "!!document.querySelector('"+field+"')") {
			b.run("(document.querySelector('" + field + "').value = '" + text + "')")
		}
	}
}

// TestDemo drives the demo as a visitor does.
func TestDemo(t *testing.T) {
	browser := launch(t)
	program := kit.Build(t, "../../demo")
	// No minute ends, and a busy machine is no slow device.
	stands, cheap := kit.Build(t, "../../demo", "o.now = time.Now\n", "o.now = func() time.Time { return time.Unix(1_800_000_000, 0) }\n"), []string{"-work", "4096"}
	t.Run("the page shows what is left and what it costs", func(t *testing.T) {
		d := startDemo(t, stands, cheap...)
		b := open(t, browser, d.URL+"/forms")
		b.wait(`document.querySelector("[data-tally=contact]").textContent === "5 left on your tally. More than that costs your browser less than a second of work."`)
		b.wait(`document.querySelector("[data-tally=signup]").textContent === "You have no tally of your own yet. The next request costs your browser less than a second of work."`)
		b.wait(`document.querySelector("[data-tally=feedback]").textContent.startsWith("20 left on your tally.")`)
		d.clean(t, b)
	})

	t.Run("the states of the element, side by side", func(t *testing.T) {
		d := startDemo(t, stands, cheap...)
		b := open(t, browser, d.URL+"/forms")
		states := `[...document.querySelectorAll(".states tally-check")].map((check) => [check.dataset.state, check.dataset.reason].join(" ").trim()).join(", ")`
		b.wait(states + ` === "idle, idle, idle"`)
		b.click(".states > button")
		b.wait(states + ` === "done, error dear, error setup"`)
		b.axe()
		d.clean(t, b)
	})

	t.Run("without JavaScript, after a wait", func(t *testing.T) {
		d := startDemo(t, program)
		b := open(t, browser, d.URL+"/forms")
		for _, form := range []string{"signup", "feedback"} {
			b.visit(d.URL + "/forms")
			b.write(form)
			b.scripts(false)
			before := len(b.loaded("POST "))
			b.click(`form[action="/` + form + `"] button:not([type=button])`)
			b.wait(`document.title.startsWith("Not sent yet")`)
			require.Empty(t, b.loaded("/redeem"))
			for n := 0; eval[string](b, "document.title") != "Accepted"; n++ {
				require.Less(t, n, 10, "the wait is over by now")
				sleep(b, 2)
				if form == "signup" { // which the page must not hold
					b.run(`(document.querySelector("[name=password]").value = "correct horse")`)
				}
				b.run(`(window.before = true)`)
				b.click("form button:not([type=button])")
				b.wait(`!window.before && document.readyState === "complete"`)
			}
			require.GreaterOrEqual(t, len(b.loaded("POST "))-before, 2)
			b.scripts(true)
		}
		d.clean(t, b)
	})
}
