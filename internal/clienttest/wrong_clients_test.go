// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/proof/kit"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A layer is a fault of a client: what it does to what goes out and comes in.
type layer = func(http.RoundTripper) http.RoundTripper

// below puts a fault under the polite client, which does all else right.
func below(fault layer) layer {
	return func(base http.RoundTripper) http.RoundTripper {
		return &client.Transport{Base: fault(base), Workers: 1}
	}
}

// between is a fault in what goes out, and in what comes in; nil leaves it alone.
func between(out func(*http.Request), in func(*http.Request, *http.Response)) layer {
	return func(base http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if out != nil {
				r = r.Clone(r.Context())
				out(r)
			}
			resp, err := base.RoundTrip(r)
			if err == nil && in != nil {
				in(r, resp)
			}
			return resp, err
		})
	}
}

// sending is a fault in what goes out.
func sending(change func(*http.Request)) layer { return between(change, nil) }

// receiving is a fault in what comes in.
func receiving(change func(*http.Response)) layer {
	return between(nil, func(_ *http.Request, resp *http.Response) { change(resp) })
}

// repeating sends what was answered so once more, at once. Around the polite client, so that
// its tokens go along.
func repeating(when func(*http.Response) bool) layer {
	return func(base http.RoundTripper) http.RoundTripper {
		polite := &client.Transport{Base: base, Workers: 1, MaxWait: -1}
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := polite.RoundTrip(r)
			if err != nil || !when(resp) {
				return resp, err
			}
			again := r.Clone(r.Context())
			again.Body, err = r.GetBody()
			if err != nil {
				return nil, err
			}
			return polite.RoundTrip(again)
		})
	}
}

func field(r *http.Response, name string) string { return r.Header.Get(name) }

// Each fault is found, in the cases that are for it, and nothing else is.
func TestWrongClientsAreFoundOut(t *testing.T) {
	tests := map[string]struct {
		client layer
		code   string
		in     []string // the cases
	}{
		"drops its tokens": {below(sending(func(r *http.Request) { r.Header.Del(middleware.TokenHeader) })), "token-dropped", []string{
			"echo", "two-policies", "two-things", "rotation", "lost-answer", "other-origin", "wait", "unavailable", "degraded", "work", "work-or-wait", "work-each-time", "proof-unread", "expired", "price-risen",
		}},
		"keeps its first token": {keepsFirst, "token-stale", []string{
			"echo", "two-policies", "two-things", "rotation", "wait", "degraded", "work", "work-or-wait", "work-each-time",
		}},
		"keeps one token of an answer": {below(receiving(func(resp *http.Response) {
			resp.Header.Set(middleware.TokenHeader, resp.Header.Get(middleware.TokenHeader))
		})), "token-dropped", []string{"two-policies"}},
		"keeps one token of a policy":   {keepsOne, "token-stale", []string{"two-things"}},
		"forgets all after an error":    {forgetsAfterErrors, "token-dropped", []string{"lost-answer"}},
		"shows its tokens to everybody": {showsEverybody, "token-leaked", []string{"other-origin"}},
		"does not wait": {repeating(func(r *http.Response) bool {
			return field(r, "Retry-After") != "" && field(r, middleware.ChallengeHeader) == ""
		}), "too-early", []string{"wait", "unavailable", "proof-unread"}},
		"waits where that does not help": {repeating(func(r *http.Response) bool {
			return r.StatusCode == http.StatusForbidden && field(r, middleware.ChallengeHeader) == ""
		}), "sent-again", []string{"never"}},
		"sends twice": {repeating(func(r *http.Response) bool { return r.StatusCode == http.StatusOK }), "sent-again", []string{
			"echo", "two-policies", "two-things", "rotation", "lost-answer", "other-origin", "wait", "unavailable", "degraded", "work", "work-or-wait", "work-each-time", "proof-unread", "expired", "price-risen",
		}},
		"loses the body": {below(sending(func(r *http.Request) {
			if r.Header.Get(middleware.ProofHeader) != "" {
				r.Body = http.NoBody
			}
		})), "changed", []string{"work", "work-or-wait", "work-each-time", "proof-unread", "expired", "price-risen", "never-accepted", "memory-full"}},
		"solves wrongly": {below(sending(func(r *http.Request) {
			if proof := r.Header.Get(middleware.ProofHeader); proof != "" {
				r.Header.Set(middleware.ProofHeader, proof[:strings.Index(proof, "~")]+"~1.1.1.1.1.1.1.1")
			}
		})), "proof-wrong", []string{"work", "work-or-wait", "work-each-time", "proof-unread", "expired", "price-risen", "memory-full"}},
		"answers an old challenge": {oldProofs, "proof-foreign", []string{
			"work-each-time", "expired", "price-risen", "never-accepted", "memory-full",
		}},
		"solves again after a 503": {below(dropsProof()), "proof-dropped", []string{"proof-unread"}},
		"never gives up": {func(base http.RoundTripper) http.RoundTripper {
			return &client.Transport{Base: base, Workers: 1, MaxSolves: 4, MaxAttempts: 20}
		}, "endless", []string{"never-accepted", "memory-full"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				report := play(t, newServer(t), test.client)
				require.False(t, report.OK())
				var found []string
				for _, c := range report.Cases {
					for _, fault := range c.Faults {
						require.Equal(t, test.code, fault.Code, "%s", report)
					}
					if c.Verdict == "failed" {
						found = append(found, c.Case)
					}
				}
				require.Equal(t, test.in, found, "%s", report)
				require.Equal(t, len(found), report.Failed)
				require.Contains(t, report.String(), ": "+string(test.code))
			})
		})
	}
}

// keepsOne shows the newest token of each policy, whatever it is of.
func keepsOne(base http.RoundTripper) http.RoundTripper {
	newest := map[string]string{}
	return below(between(func(r *http.Request) {
		r.Header[middleware.TokenHeader] = slices.DeleteFunc(r.Header[middleware.TokenHeader], func(tok string) bool {
			return !slices.Contains(slices.Collect(maps.Values(newest)), tok)
		})
	}, func(_ *http.Request, resp *http.Response) {
		for _, tok := range resp.Header[middleware.TokenHeader] {
			header, _, _ := strings.Cut(tok, ".")
			newest[header] = tok
		}
	}))(base)
}

// keepsFirst shows the first tokens that each URL has brought, whatever its query, for ever.
func keepsFirst(base http.RoundTripper) http.RoundTripper {
	first := map[string][]string{}
	return below(between(func(r *http.Request) {
		if kept := first[r.URL.Host+r.URL.Path]; kept != nil {
			r.Header[middleware.TokenHeader] = kept
		}
	}, func(r *http.Request, resp *http.Response) {
		if url := r.URL.Host + r.URL.Path; first[url] == nil {
			first[url] = resp.Header[middleware.TokenHeader]
		}
	}))(base)
}

// forgetsAfterErrors starts over when the network fails.
func forgetsAfterErrors(base http.RoundTripper) http.RoundTripper {
	polite := &client.Transport{Base: base, Workers: 1}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := polite.RoundTrip(r)
		if err != nil {
			polite = &client.Transport{Base: base, Workers: 1}
		}
		return resp, err
	})
}

// showsEverybody shows the newest tokens to every host.
func showsEverybody(base http.RoundTripper) http.RoundTripper {
	var newest []string
	return below(between(func(r *http.Request) {
		if r.Header[middleware.TokenHeader] == nil {
			r.Header[middleware.TokenHeader] = newest
		}
	}, func(_ *http.Request, resp *http.Response) {
		if tokens := resp.Header[middleware.TokenHeader]; tokens != nil {
			newest = tokens
		}
	}))(base)
}

// dropsProof takes a proof away that was sent before.
func dropsProof() layer {
	sent := map[string]bool{}
	return sending(func(r *http.Request) {
		proof := r.Header.Get(middleware.ProofHeader)
		if sent[proof] {
			r.Header.Del(middleware.ProofHeader)
		}
		sent[proof] = true
	})
}

// oldProofs answers every challenge of a URL path as it answered the first.
func oldProofs(base http.RoundTripper) http.RoundTripper {
	first := map[string]string{}
	return below(sending(func(r *http.Request) {
		proof := r.Header.Get(middleware.ProofHeader)
		switch {
		case proof == "":
		case first[r.URL.Path] == "":
			first[r.URL.Path] = proof
		default:
			r.Header.Set(middleware.ProofHeader, first[r.URL.Path])
		}
	}))(base)
}

// What no transport can do wrong: the order of the requests, and their number.
func TestRequestsOutOfTurn(t *testing.T) {
	script := newServer(t)
	c := middlewaretest.Script(script, "")
	send := func(url string) {
		resp := kit.Must(c.Post(home+url, "text/plain", bytes.NewReader(nil)))(t)
		kit.Must(io.Copy(io.Discard, resp.Body))(t)
	}
	echo := func() clienttest.Result {
		all := script.Report().Cases
		return all[slices.IndexFunc(all, func(r clienttest.Result) bool { return r.Case == "echo" })]
	}
	require.Equal(t, "missing", echo().Verdict)
	for _, call := range []string{"1", "2", "3", "5"} {
		send("/run/echo?call=" + call)
	}
	require.Equal(t, "missing", echo().Verdict, "the fourth is not there")
	require.False(t, script.Report().OK())
	send("/run/echo?call=4")
	require.Equal(t, []clienttest.Fault{{Code: "out-of-turn", Call: 4, Send: 5}}, echo().Faults)
}

// Cookies are as good as fields.
func TestABrowserPasses(t *testing.T) {
	script := newServer(t)
	jar := middlewaretest.Browser(script, "")
	report := play(t, script, func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			once := *jar
			once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			return once.Do(&http.Request{Method: r.Method, URL: r.URL, Header: r.Header, Body: r.Body, ContentLength: r.ContentLength})
		})
	})
	require.True(t, report.OK(), "%s", report)
	require.Equal(t, 8, report.Returned, "%s", report)
}

// Our own client, in a bubble: what it waits for is over at once.
func TestGoClientPasses(t *testing.T) {
	for name, transport := range map[string]*client.Transport{
		"":      {Workers: 1},
		"waits": {MaxSolves: -1},
		"works": {Workers: 1, MaxWait: -1},
		"echo":  {MaxSolves: -1, MaxWait: -1},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				report := play(t, newServer(t), func(base http.RoundTripper) http.RoundTripper {
					transport.Base = base
					return transport
				})
				require.True(t, report.OK(), "%s", report)
				t.Log(report.String())
				if name == "" {
					require.Len(t, report.Cases, report.Passed, "%s", report)
				}
			})
		})
	}
}

// A client that shares no code with this repository, in another language.
func TestPythonClientPasses(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		kit.Unable(t, "there is no python3: %v", err)
	}
	script := newServer(t)
	server := httptest.NewServer(script)
	defer server.Close()
	cmd := exec.Command(python, "-B", "testdata/polite.py", "../../pow/testdata")
	cmd.Env = append(os.Environ(), "CLIENTTEST_URL="+server.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	report := script.Report()
	require.Len(t, report.Cases, report.Passed, "%s", report)
}
