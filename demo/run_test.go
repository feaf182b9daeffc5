// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

// How the demo starts and ends.

func TestShutdownLetsRequestsFinish(t *testing.T) {
	before := runtime.NumGoroutine()
	s := start(t, 3)

	// Half a request, by hand: the headers and a part of the body.
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	half := len(goodContact) / 2
	_, err = io.WriteString(conn, "POST /contact HTTP/1.1\r\nHost: demo\r\nExpect: 100-continue\r\n"+urlencoded+
		"\r\nContent-Length: "+strconv.Itoa(len(goodContact))+"\r\n\r\n")
	require.NoError(t, err)
	// The server asks for the body once the handler reads it: by then the
	// request is under way.
	buffer := make([]byte, 1024)
	n, err := conn.Read(buffer)
	require.NoError(t, err)
	require.Contains(t, string(buffer[:n]), "100 Continue")
	_, err = io.WriteString(conn, goodContact[:half])
	require.NoError(t, err)

	s.stop()
	eventually(t, "the listener is closed", func() bool {
		probe, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			_ = probe.Close()
		}
		return err != nil
	})
	select {
	case <-s.done:
		t.Fatal("run did not wait for the request")
	default:
	}
	_, err = io.WriteString(conn, goodContact[half:])
	require.NoError(t, err)
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(rest), "HTTP/1.1 200 OK")
	require.Contains(t, string(rest), `{"accepted":true}`)
	<-s.done
	require.NoError(t, s.err)

	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// With -bounds the demo prints what clients get of each policy on its instances, and listens nowhere.
func TestBoundsArePrinted(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"-bounds", "-instances=10"}, io.Discard)
	require.NoError(t, err)
	o.stdout, o.log, o.now = &out, slog.New(slog.DiscardHandler), time.Now
	require.NoError(t, run(t.Context(), o))
	for _, policy := range []string{"api", "contact", "feedback", "newsletter", "signup"} {
		require.Contains(t, out.String(), policy+", N = 10 ")
	}
	require.NotContains(t, out.String(), "Listening")
}

func TestAddressInUse(t *testing.T) {
	s := start(t, 1)
	err := run(t.Context(), options{
		addr: strings.TrimPrefix(s.url, "http://"), instances: 1,
		stdout: io.Discard, log: slog.New(slog.DiscardHandler), now: time.Now,
	})
	var problem *net.OpError
	require.ErrorAs(t, err, &problem)
}

func TestCommandLine(t *testing.T) {
	o, err := parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{addr: "127.0.0.1:8080", instances: 3, work: 1 << 22, crowd: 64}, o)

	o, err = parse([]string{"-addr", "[::1]:0", "-instances=2", "-secret-file", "s", "-work=4096", "-crowd=2"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, options{addr: "[::1]:0", instances: 2, secretFile: "s", work: 4096, crowd: 2}, o)

	for _, bad := range []string{"-instances=0", "-instances=-1", "-instances=101", "-instances=x", "-nonsense", "stray",
		"-work=-1", "-work=15", "-work=536870913", "-work=x", "-crowd=0", "-crowd=256", "-counter=disk", "-secret-file=s -policy-file=p"} {
		var said bytes.Buffer
		_, err := parse(strings.Fields(bad), &said)
		require.Error(t, err, bad)
		require.NotEmpty(t, said.String(), bad)
	}
	for _, good := range []string{"-work=0", "-work=16", "-work=536870912", "-crowd=1", "-crowd=255"} {
		o, err := parse([]string{good}, io.Discard)
		require.NoError(t, err, good)
		o.log, o.now = slog.New(slog.DiscardHandler), time.Now
		_, err = newInstances(o, [][]byte{[]byte(strings.Repeat("s", 32))}, memory.New(0, nil))
		require.NoError(t, err, "%s: middleware permits what the command line does", good)
	}
	_, err = parse([]string{"-h"}, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestSecretFile(t *testing.T) {
	const a = "the-first-secret-of-32-characters"
	load := func(content string) ([][]byte, error) {
		name := filepath.Join(t.TempDir(), "secrets")
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		o := options{secretFile: name, instances: 1, addr: "127.0.0.1:0", now: time.Now, stdout: io.Discard, log: slog.New(slog.DiscardHandler)}
		secrets, err := loadSecrets(o)
		if err != nil {
			return nil, err
		}
		_, err = newInstances(o, secrets, memory.New(0, nil))
		return secrets, err
	}
	_, err := load(a)
	require.NoError(t, err)
	_, err = load("# empty\n")
	require.ErrorContains(t, err, "holds no secret")
	_, err = load("short-hush\n")
	require.ErrorContains(t, err, "Secrets[0]")
	require.NotContains(t, err.Error(), "hush")
	_, err = loadSecrets(options{secretFile: filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTokensOutliveARestartWithASecretFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secrets")
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("s", 32)), 0o600))
	o := options{instances: 1, secretFile: name}

	c := startWith(t, o).client(t)
	require.Equal(t, 5, admitted(t, 6, func() answer { return c.echo() }))
	again := startWith(t, o).client(t)
	again.last = c.last
	require.Equal(t, http.StatusTooManyRequests, again.echo().StatusCode)
}

// eventually polls, for what happens in goroutines that are not ours.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !holds(); {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("never: %s\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}

// What a Prometheus reads: decisions by policy, route and reason, of all instances, and the
// state of each; and nothing that tells of a client.
func TestMetrics(t *testing.T) {
	s := start(t, 2)
	c := s.client(t)
	for range 4 {
		require.Equal(t, http.StatusOK, c.newsletter().StatusCode)
	}
	a := c.do("GET", metricsPath, "")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Empty(t, a.Header.Get("Demo-Instance"), "it is no instance's")
	admitted := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^tallystick_decisions_total\{demo_instance="(\d)",http_route="/newsletter",tallystick_authenticated="false",tallystick_outcome="admitted",tallystick_policy="newsletter",tallystick_reason="within-limits"\} (\d+)$`).FindAllStringSubmatch(a.body, -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		admitted[m[1]] = n
	}
	require.Equal(t, map[string]int{"1": 2, "2": 2}, admitted, a.body)
	for _, policy := range []string{"contact", "newsletter", "signup", "feedback", "api"} {
		require.Contains(t, a.body, `tallystick_memory_utilization_ratio{demo_instance="2",tallystick_policy="`+policy+`"} 0`)
	}
	require.Contains(t, a.body, `tallystick_exact_down{demo_instance="1",tallystick_policy="api"} 0`)
	require.NotContains(t, a.body, "127.0.0.1")

	if _, err := exec.LookPath("promtool"); err != nil {
		kit.Unable(t, "there is no promtool: %v", err)
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(a.body)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
