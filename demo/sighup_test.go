// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// A process is the demo as an operator runs it, by a clock that stands still: no window may
// end while counts are compared.
type process struct {
	*server
	t    *testing.T
	cmd  *exec.Cmd
	logs *bufio.Reader
}

func startProcess(t *testing.T, flags ...string) *process {
	t.Helper()
	program := kit.Build(t, ".", "o.now = time.Now\n", "o.now = func() time.Time { return time.Unix(1_800_000_000, 0) }\n")
	p := &process{t: t, server: &server{}, cmd: exec.Command(program, append([]string{"-addr", "127.0.0.1:0", "-counter", "memory"}, flags...)...)}
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.listens(t, stdout)
	p.logs = bufio.NewReader(stderr)
	return p
}

// hangUp sends the signal, and returns the line that says what came of it.
func (p *process) hangUp() string {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGHUP))
	for {
		line, err := p.logs.ReadString('\n')
		require.NoError(p.t, err)
		if strings.Contains(line, "msg=reloaded") || strings.Contains(line, `msg="not reloaded`) {
			return strings.TrimSpace(line)
		}
	}
}

// A sender is a client that sends without pause, echoes the newest token, and keeps its own count.
type sender struct {
	sent  atomic.Int64
	wrong atomic.Pointer[string]
}

var (
	quotaField = regexp.MustCompile(`^"contact";q=(\d+);w=86400$`)
	leftField  = regexp.MustCompile(`^"contact";r=(\d+);`)
)

// send sends until stop is closed, or something is not as it should be: an admission, and exactly the
// quota in force less what was sent left.
func (s *sender) send(c *http.Client, url string, stop <-chan struct{}) {
	token := ""
	for n := int64(1); ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		r, err := http.NewRequest("POST", url+"/contact", strings.NewReader(goodContact))
		if err != nil {
			s.fail("%v", err)
			return
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if token != "" {
			r.Header.Set(middleware.TokenHeader, token)
		}
		a, err := c.Do(r)
		if err != nil {
			s.fail("request %d: %v", n, err)
			return
		}
		_ = a.Body.Close()
		token = a.Header.Get(middleware.TokenHeader)
		quota, left := quotaField.FindStringSubmatch(a.Header.Get("RateLimit-Policy")), leftField.FindStringSubmatch(a.Header.Get("RateLimit"))
		if a.StatusCode != http.StatusOK || token == "" || quota == nil || left == nil {
			s.fail("request %d: %d, %v", n, a.StatusCode, a.Header)
			return
		}
		q, _ := strconv.ParseInt(quota[1], 10, 64)
		if left[1] != strconv.FormatInt(q-n, 10) {
			s.fail("request %d of %d: r=%s", n, q, left[1])
			return
		}
		s.sent.Store(n)
	}
}

func (s *sender) fail(format string, values ...any) {
	what := fmt.Sprintf(format, values...)
	s.wrong.Store(&what)
}

// TestReloadsUnderLoad rotates the secrets and changes the policy of the demo's process, by SIGHUP,
// while eight clients send by three instances: no error, no refusal, every count right.
func TestReloadsUnderLoad(t *testing.T) {
	const clients = 8
	var transports [clients]*http.Transport
	for i := range transports { // each its own address, and so its own count
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i))}
		if probe, err := net.ListenTCP("tcp", local); err != nil {
			kit.Unable(t, "there is no %s: %v", local.IP, err)
		} else {
			_ = probe.Close()
		}
		transports[i] = &http.Transport{DialContext: (&net.Dialer{LocalAddr: local}).DialContext}
		t.Cleanup(transports[i].CloseIdleConnections)
	}
	policies := func(quota string) string {
		return examplePolicies(t, contactLimits, `[{"name": "contact", "quota": `+quota+`, "window": "24h"}]`)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("secrets", secretA)
	write("policies.json", policies("1000000"))
	p := startProcess(t, "-instances", "3", "-policy-file", filepath.Join(dir, "policies.json"))

	var all sync.WaitGroup
	stop := make(chan struct{})
	var senders [clients]sender
	for i := range senders {
		all.Go(func() { senders[i].send(&http.Client{Transport: transports[i], Timeout: patient}, p.url, stop) })
	}
	// Each client sends some more requests, so that each instance has answered it since.
	onward := func(step string) {
		t.Helper()
		for i := range senders {
			s := &senders[i]
			from := s.sent.Load()
			eventually(t, step, func() bool { return s.wrong.Load() != nil || s.sent.Load() >= from+30 })
			if wrong := s.wrong.Load(); wrong != nil {
				require.Fail(t, step, "client %d: %s", i+1, *wrong)
			}
		}
	}
	const fine = "level=INFO msg=reloaded"
	onward("before")
	for _, change := range []struct{ step, name, text, says string }{
		{"the new secret last", "secrets", secretA + "\n" + secretB, fine},
		{"a larger quota", "policies.json", policies("2000000"), fine},
		{"a file that is wrong", "policies.json", policies("-1"), "not reloaded: nothing has changed"},
		{"a smaller quota", "policies.json", policies("1500000"), fine},
		{"the new secret first", "secrets", secretB + "\n" + secretA, fine},
		{"without the old secret", "secrets", secretB, fine},
		{"the quota of before", "policies.json", policies("1000000"), fine},
	} {
		write(change.name, change.text)
		said := p.hangUp()
		require.Contains(t, said, change.says, change.step)
		onward(change.step)
	}
	close(stop)
	all.Wait()
	said := p.hangUp()
	sent := int64(0)
	for i := range senders {
		require.Nil(t, senders[i].wrong.Load())
		sent += senders[i].sent.Load()
	}
	require.Contains(t, said, fmt.Sprintf("since-start.decisions=%d since-start.token-errors=0", sent))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait())
}
