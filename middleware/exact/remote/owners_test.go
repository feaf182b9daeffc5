// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// sum returns the MAC of a text, as the page says it is made.
func sum(by []byte, text string) string {
	of := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = io.WriteString(h, text)
		return h.Sum(nil)
	}
	return base64.RawURLEncoding.EncodeToString(of(of(by, "tallystick/v1/remote key"), text))
}

// signedBy is the header of the request of a body.
func signedBy(by []byte, body string) http.Header {
	is := sha256.Sum256([]byte(body))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(is[:]) + ":"
	h := http.Header{}
	h.Set("Content-Digest", digest)
	h.Set("Tallystick-Mac", sum(by, "tallystick/v1/remote request\n\n"+digest))
	return h
}

// asked returns the lines that an owner answers to a body that is signed with a secret, without
// their MACs.
func asked(t *testing.T, owner http.RoundTripper, by []byte, body string) (text string) {
	t.Helper()
	header := signedBy(by, body)
	status, all := exchange(t, owner, http.MethodPost, "http://owner/", header, strings.NewReader(body))
	require.Equal(t, http.StatusOK, status, all)
	for line := range strings.Lines(all) {
		mac, said, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		require.Equal(t, sum(secret("a"), "tallystick/v1/remote answer\n"+header.Get("Tallystick-Mac")+"\n"+said), mac)
		text += said + "\n"
	}
	return text
}

// owners runs a test with each owner there is, by a clock that stands still at the page's time.
func owners(t *testing.T, test func(t *testing.T, owner http.RoundTripper)) {
	now := func() time.Time { return time.UnixMilli(1_900_000_000_000) }
	t.Run("Serve", func(t *testing.T) {
		began := now().Add(-time.Hour)
		h := kit.Must(remote.Serve(memory.New(1, now), remote.Config{Secrets: [][]byte{secret("a"), secret("b")}, Now: func() time.Time { return began }}))(t)
		began = now()
		test(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Result(), nil
		}))
	})
	t.Run("the Durable Object", func(t *testing.T) {
		test(t, startEdge(t, now))
	})
}

// call returns the request of the page, with one thing changed.
func call(t *testing.T, old, new string) string {
	t.Helper()
	blocks, _, err := pages.Read("../../../docs/counters.md")
	require.NoError(t, err)
	for _, b := range blocks {
		if b.RunBy == "TestTheWireIsThatOfItsPage" {
			body, _, _ := strings.Cut(b.Text, "\n")
			if old != "" {
				require.Equal(t, 1, strings.Count(body, old), old)
			}
			return strings.Replace(body, old, new, 1)
		}
	}
	t.Fatal("the page has no exchange")
	return ""
}

// Every owner answers the request of the page by its answer.
func TestOwnersAnswerAsThePageSays(t *testing.T) {
	page := kit.Must(os.ReadFile("../../../docs/counters.md"))(t)
	owners(t, func(t *testing.T, owner http.RoundTripper) {
		body := call(t, "", "")
		text := asked(t, owner, secret("a"), body)
		require.Contains(t, string(page), body+"\nContent-Digest: ")
		require.Contains(t, string(page), " "+text)
	})
}

// What an owner cannot do, or must not, is answered by its name, and nothing is counted.
func TestOwnersRefuseByName(t *testing.T) {
	ids := func(n int) string { return `"ids":["` + strings.TrimSuffix(strings.Repeat(`YQ","`, n), `","`) + `"]` }
	const id, key, cost = `"ids":["MDEyMzQ1Njc4OWFiY2RlZg"]`, `"key":"azE"`, `"cost":1`
	const at, window = `"at":1900000000000`, `"algorithm":"fixed-window","quota":5,"window":3600`
	owners(t, func(t *testing.T, owner http.RoundTripper) {
		for _, of := range []struct{ old, new, want string }{
			{at, `"at":1900000004001`, "stale"},
			{at, `"at":1899999995999`, "stale"},
			{`"fixed-window"`, `"leaking-log"`, "algorithm"},
			{`"fixed-window"`, `"Fixed-Window"`, "algorithm"},
			{`"fixed-window"`, `""`, "algorithm"},
			{`"fixed-window"`, `7`, "malformed"},
			{`"take"`, `"give"`, "malformed"},
			{`"take"`, `"peek"`, "malformed"},
			{`{"at"`, `["at"`, "malformed"},
			{key, `"key":"az="`, "malformed"},
			{key, `"key":"azF"`, "malformed"}, // its last bits say nothing
			{key, `"key":7`, "malformed"},
			{key, `"key":""`, "call"},
			{key, `"key":"` + strings.Repeat("AAAA", 86) + `"`, "call"},
			{cost, `"cost":0`, "call"},
			{cost, `"cost":-1`, "call"},
			{cost, `"cost":1.5`, "malformed"},
			{cost, `"cost":2147483648,"past":true`, "call"},
			{cost, `"cost":1,"pause":5`, "call"},
			{cost, `"cost":1,"pause":-5`, "call"},
			{cost, `"cost":1,"ahead":5`, "call"},
			{cost, `"cost":1,"ahead":3600000001`, "malformed"},
			{cost, `"cost":0,"pause":86400000001`, "malformed"},
			{`"quota":5`, `"quota":0`, "malformed"},
			{`"quota":5`, `"quota":2147483648`, "malformed"},
			{`"window":3600`, `"window":31622401`, "malformed"},
			{`"window":3600`, `"window":3600,"burst":2`, "malformed"},
			{window, `"algorithm":"sliding-log","quota":10001,"window":3600`, "malformed"},
			{window, `"algorithm":"rolling-day","quota":5,"window":3600`, "malformed"},
			{window, `"algorithm":"token-bucket","quota":1,"window":31622400,"burst":2`, "malformed"},
			{window, `"algorithm":"calendar-year","quota":5,"window":2419200,"ends":[1,2,3]`, "algorithm"},
			{window, `"algorithm":"calendar-month","quota":5,"window":2419200`, "malformed"},
			{window, `"algorithm":"calendar-month","quota":5,"window":3600,"ends":[1,2,3]`, "malformed"},
			{window, `"algorithm":"calendar-month","quota":5,"window":2419200,"ends":[1900000000,1900000000,1900000001]`, "malformed"},
			{window, `"algorithm":"calendar-month","quota":5,"window":2419200,"ends":[1900000000,1900000001,4294967297]`, "malformed"},
			{`"policy":0`, `"policy":1`, "malformed"},
			{`"policy":0`, `"policy":-1`, "malformed"},
			{`"calls"`, `"cells"`, "malformed"},
			{`"calls":[`, `"calls":[` + strings.Repeat(`{"op":"peek","wait":50,"policy":0,"key":"azE","cost":1},`, 32), "malformed"},
			{`"limits":[{"name":"api"`, `"limits":[{"name":"a b"`, "malformed"},
			{`[{"name":"api","limits`, `[{"name":"API","limits`, "malformed"},
			{`}]}],"calls`, `},{"name":"api",` + window + `}]}],"calls`, "malformed"},
			{id, `"ids":[]`, "call"},
			{id, `"ids":[""]`, "call"},
			{id, `"ids":["YQ",""]`, "call"},
			{id, `"ids":["="]`, "call"},
			{id, `"ids":["` + strings.Repeat("AAAA", 22) + `"]`, "call"},
			{id, ids(257), "malformed"},
			{`"wait":50`, `"wait":0`, "not-counted"},
			{`"wait":50`, `"wait":-1`, "not-counted"},
			{`"take"`, `"refund"`, "malformed"},
			{id, `"op":"refund"`, "no-refund"},
			{id, `"receipt":{"serial":"1","at":"now"},"op":"refund"`, "no-refund"},
			{id, `"receipt":{"serial":"1","at":"1900000000000000000"},"op":"refund"`, "no-refund"},
		} {
			text := asked(t, owner, secret("a"), call(t, of.old, of.new))
			require.Contains(t, text, `{"at":1900000000000,`, of.new)
			require.Contains(t, text, `"error":"`+of.want+`"}`, of.new)
			require.NotContains(t, text, "limits", of.new)
		}
		// At the very limits, and signed with any secret.
		for i, at := range []string{`"at":1900000004000`, `"at":1899999996000`} {
			text := asked(t, owner, secret("ab"[i:i+1]), strings.Replace(call(t, `"at":1900000000000`, at), id, ids(1), 1))
			require.Contains(t, text, `"admitted":true`)
			require.Contains(t, text, `"limits":[[4,800,0]]`, "nothing of all that was counted, and this once")
		}
	})
}

// Every call of a request is answered, by its number, whatever becomes of the others.
func TestOwnersAnswerEachCall(t *testing.T) {
	owners(t, func(t *testing.T, owner http.RoundTripper) {
		var calls []string
		of := func(text string) { calls = append(calls, `{"wait":5000,"cost":1,`+text+`}`) }
		of(`"op":"take","policy":0,"key":"azE","ids":["YQ","Yg"]`)
		of(`"op":"take","policy":7,"key":"azE","ids":["YQ","Yg"]`)
		of(`"op":"refund","policy":0,"key":"azI"`)
		of(`"op":"take","policy":0,"key":"azM","ids":["YQ","YQ"]`)
		of(`"op":"peek","policy":0,"key":"azQ"`)
		first := call(t, "", "")
		body := first[:strings.Index(first, `"calls":[`)] + `"calls":[` + strings.Join(calls, ",") + "]}"
		got := map[int]string{}
		for line := range strings.Lines(asked(t, owner, secret("a"), body)) {
			var a struct{ Verdicts []json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(line), &a))
			for _, text := range a.Verdicts {
				var v struct {
					N                  int
					Error              string
					Admitted, Replayed bool
					Limits             [][3]int64
				}
				require.NoError(t, json.Unmarshal(text, &v))
				require.NotContains(t, got, v.N)
				got[v.N] = fmt.Sprint(v.Error, v.Admitted, v.Replayed, len(v.Limits))
			}
		}
		const admitted, malformed = "true false 1", "malformedfalse false 0"
		require.Equal(t, map[int]string{
			0: admitted, 1: admitted, 2: malformed, 3: malformed, 4: "no-refundfalse false 0", 5: admitted, 6: "true true 1", 7: admitted,
		}, got)
	})
}

// No owner hears a caller without a secret, nor a body of another kind.
func TestOwnersHearOnlyWhoHasASecret(t *testing.T) {
	owners(t, func(t *testing.T, owner http.RoundTripper) {
		body := call(t, "", "")
		signed := func(by, body string) http.Header { return signedBy(secret(by), body) }
		good := signed("a", body)
		with := func(name, value string) http.Header {
			h := good.Clone()
			h.Set(name, value)
			return h
		}
		// Such a digest is of no body: it is not worth a MAC.
		digest := "sha-256=:" + strings.Repeat("A", 4096) + ":"
		long := with("Content-Digest", digest)
		long.Set("Tallystick-Mac", sum(secret("a"), "tallystick/v1/remote request\n\n"+digest))
		for what, of := range map[string]struct {
			method, body string
			header       http.Header
			want         int
			says         string // "": whatever
		}{
			"GET":                {http.MethodGet, "", good, http.StatusMethodNotAllowed, ""},
			"no MAC":             {http.MethodPost, body, with("Tallystick-Mac", ""), http.StatusUnauthorized, ""},
			"no digest":          {http.MethodPost, body, with("Content-Digest", ""), http.StatusUnauthorized, ""},
			"another secret":     {http.MethodPost, body, signed("c", body), http.StatusUnauthorized, ""},
			"another body":       {http.MethodPost, body + " ", good, http.StatusUnauthorized, ""},
			"another digest":     {http.MethodPost, body + " ", with("Content-Digest", signed("a", body+" ").Get("Content-Digest")), http.StatusUnauthorized, ""},
			"a MAC of an answer": {http.MethodPost, body, with("Tallystick-Mac", sum(secret("a"), "tallystick/v1/remote answer\n\n"+good.Get("Content-Digest"))), http.StatusUnauthorized, ""},
			"a padded MAC":       {http.MethodPost, body, with("Tallystick-Mac", good.Get("Tallystick-Mac")+"="), http.StatusUnauthorized, ""},
			"too long":           {http.MethodPost, strings.Repeat("x", 128<<10+1), signed("a", strings.Repeat("x", 128<<10+1)), http.StatusBadRequest, ""},
			"a long digest":      {http.MethodPost, body, long, http.StatusUnauthorized, "is not signed with a secret"},
			"as long as may be":  {http.MethodPost, strings.Repeat("x", 128<<10), good, http.StatusUnauthorized, ""},
		} {
			status, text := exchange(t, owner, of.method, "http://owner/", of.header, strings.NewReader(of.body))
			require.Equal(t, of.want, status, what)
			require.Contains(t, text, of.says, what)
		}
		text := asked(t, owner, secret("a"), body)
		require.Contains(t, text, `"limits":[[4,800,0]]`, "nothing was counted before")
	})
}

// scripts are embedded, so that a mutant of them runs.
//
//go:embed durable testdata/workerd/clocked.js testdata/workerd/clocked.capnp
var scripts embed.FS

// startWorkerd starts the runtime of Cloudflare's Workers, with durable/owner.js in it, by a configuration.
// counts is the folder that it keeps its counts in: storage in memory has no SQL.
func startWorkerd(t testing.TB, config, counts string) *exactkit.Server {
	t.Helper()
	found := kit.Must(filepath.Glob("testdata/workerd/node_modules/@cloudflare/workerd-*/bin/workerd"))(t)
	if len(found) == 0 {
		kit.Unable(t, "there is no workerd (.ci/need installs it, by npm)")
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, scripts))
	return exactkit.StartServer(t, func(port string) *exec.Cmd {
		c := exec.Command(found[0], "serve", filepath.Join(dir, config), "--directory-path", "counts="+counts, "--socket-addr", "http=127.0.0.1:"+port)
		c.Env = append(os.Environ(), "SECRETS="+base64.StdEncoding.EncodeToString(secret("a"))+"\n"+base64.StdEncoding.EncodeToString(secret("b")))
		c.Stderr = os.Stderr
		return c
	})
}

// at is the URL of an owner at an address.
func at(addr string) string { return "http://" + addr + "/" }

const (
	clocked = "testdata/workerd/clocked.capnp"
	shipped = "durable/workerd.capnp"
)
