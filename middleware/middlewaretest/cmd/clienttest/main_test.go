// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/kit"
)

// TestMain is the client too: the program starts this one again.
func TestMain(m *testing.M) {
	switch kind := os.Getenv("CLIENTTEST_KIND"); {
	case kind == "" || os.Getenv("CLIENTTEST_URL") == "":
		os.Exit(m.Run())
	case kind == "polite":
		// It does not wait: that would be real time.
		play(&client.Transport{Workers: 1, MaxWait: -1})
	case kind == "forgetful":
		play(&client.Transport{Workers: 1, MaxWait: -1, Base: forgetful{}})
	default:
		os.Exit(3)
	}
}

type forgetful struct{}

func (forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Tallystick-Token")
	return http.DefaultTransport.RoundTrip(r)
}

// play is what the driver of a client does.
func play(transport http.RoundTripper) {
	resp, err := http.Get(os.Getenv("CLIENTTEST_URL") + "/cases")
	if err != nil {
		panic(err)
	}
	var cases []clienttest.Case
	if err := json.NewDecoder(resp.Body).Decode(&cases); err != nil {
		panic(err)
	}
	c := &http.Client{Transport: transport}
	for _, todo := range cases {
		for _, r := range todo.Requests {
			req, err := http.NewRequest(r.Method, r.URL, strings.NewReader(r.Body))
			if err != nil {
				panic(err)
			}
			if resp, err := c.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}
	}
}

func TestWithACommand(t *testing.T) {
	self := kit.Must(os.Executable())(t)
	for kind, test := range map[string]struct {
		args []string
		said string
		err  string
	}{
		"polite":    {[]string{self}, "16 passed, 3 returned, 0 failed, 0 missing\n", ""},
		"forgetful": {[]string{"-json", self}, `"code": "token-dropped"`, errFound.Error()},
		"broken":    {[]string{self}, "", "exit status 3"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("CLIENTTEST_KIND", kind)
			var stdout, stderr strings.Builder
			err := run(t.Context(), test.args, &stdout, &stderr)
			if test.err == "" {
				require.NoError(t, err, stdout.String())
			} else {
				require.EqualError(t, err, test.err)
			}
			require.Contains(t, stdout.String(), test.said)
			require.Empty(t, stderr.String())
		})
	}
}

func TestServing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	done := make(chan error)
	go func() { done <- run(ctx, nil, stdout, io.Discard) }()
	line := kit.Must(bufio.NewReader(out).ReadString('\n'))(t)
	resp := kit.Must(http.Get(strings.TrimSpace(line)))(t)
	var cases []clienttest.Case
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&cases))
	require.NoError(t, resp.Body.Close())
	require.NotEmpty(t, cases)
	stop()
	require.NoError(t, <-done)
}

func TestUsage(t *testing.T) {
	var stderr strings.Builder
	require.ErrorIs(t, run(t.Context(), []string{"-h"}, io.Discard, &stderr), flag.ErrHelp)
	require.Contains(t, stderr.String(), "usage: clienttest [flags] [command [argument...]]")
	require.NotContains(t, stderr.String(), "httptest")
	require.Error(t, run(t.Context(), []string{"-addr", "nowhere:nothing"}, io.Discard, io.Discard))
}
