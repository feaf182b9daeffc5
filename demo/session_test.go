// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// The sessions that README.md and docs/ print are run here, command by command, and their
// output is compared.

var update = flag.Bool("update", false, "rewrite the output of the sessions in README.md and docs/")

// What the pages call the demo, and the first program.
const (
	demoURL = "http://127.0.0.1:8080"

	quickHost  = "localhost"
	quickPort  = "8080"
	secondPort = "8081"
)

// asPrinted stands in for the go command of a session. The demo is started in this process,
// by a clock that stands still, and the first program from its source, with a listener
// for its ADDR and a clock of the test's. The rest are the commands of this machine.
const asPrinted = `
go() {
	case "$*" in
	"run .") curl -sS --fail-with-body --data-urlencode "secret=$TALLYSTICK_SECRET" --data-urlencode "addr=$ADDR" "$STAGE/quickstart" ;;
	"run ./demo "*) curl -sS --fail-with-body --data-urlencode "args=${*:3}" "$STAGE/demo" ;;
	*) echo "go $*: no test runs that"; return 1 ;;
	esac
}
`

// A session is a shell, and what its commands talk to.
type session struct {
	t      *testing.T
	demo   atomic.Pointer[server]
	front  *httptest.Server
	quick  [2]net.Listener // at what the pages call 8080 and 8081
	input  io.WriteCloser
	output *bufio.Reader
	said   *bytes.Buffer // on standard error
}

func newSession(t *testing.T) *session {
	for _, command := range []string{"bash", "curl", "python3", "openssl"} {
		if _, err := exec.LookPath(command); err != nil {
			kit.Unable(t, "there is no %s", command)
		}
	}
	s := &session{t: t, said: new(bytes.Buffer)}
	s.front = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(s.demo.Load().url)
		r.SetURL(to)
	}})
	t.Cleanup(s.front.Close)
	for i := range s.quick {
		l := kit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { _ = l.Close() })
		s.quick[i] = l
	}
	stage := httptest.NewServer(http.HandlerFunc(s.direct))
	t.Cleanup(stage.Close)

	dir := t.TempDir()
	solver := kit.Must(filepath.Abs("../pow"))(t)
	require.NoError(t, os.Symlink(solver, filepath.Join(dir, "pow")))
	shell := exec.Command("bash", "--norc", "--noprofile")
	shell.Dir, shell.Stderr, shell.Env = dir, s.said, append(os.Environ(), "STAGE="+stage.URL, "LC_ALL=C")
	s.input = kit.Must(shell.StdinPipe())(t)
	stdout := kit.Must(shell.StdoutPipe())(t)
	s.output = bufio.NewReader(stdout)
	require.NoError(t, shell.Start())
	t.Cleanup(func() {
		_ = s.input.Close()
		_ = shell.Wait()
	})
	s.do(asPrinted)
	return s
}

// direct does what the shell's stand-ins ask for.
func (s *session) direct(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/demo":
		o, err := parse(strings.Fields(r.FormValue("args")), w)
		if err != nil { // the script sees it
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		o.counter, o.deadline = "memory", standard(1).deadline
		s.demo.Store(startWith(s.t, o))
		fmt.Fprintf(w, "Listening on %s/\n", s.front.URL)
	case "/quickstart":
		s.quickstart(r.FormValue("secret"), r.FormValue("addr"))
	default:
		http.NotFound(w, r)
	}
}

// quickstart builds and starts the first program, but for its listener, whose port may be taken, and
// its clock, because no test may depend on how long it takes.
func (s *session) quickstart(secret, addr string) {
	program := kit.Build(s.t, "quickstart",
		"import (", "import (\n\t\"net\"",
		`http.ListenAndServe(os.Getenv("ADDR"), nil)`, `http.Serve(listener(), nil)`,
		`Policy:  "contact",`, `Policy: "contact", Now: func() time.Time { return time.Unix(1_800_000_000, 0) },`,
		`func main() {`, `func listener() net.Listener {
	l, err := net.FileListener(os.NewFile(3, ""))
	if err != nil { panic(err) }
	return l
}

func main() {`)
	at := slices.IndexFunc(s.quick[:], func(l net.Listener) bool { return addr != "" && strings.HasSuffix(l.Addr().String(), addr) })
	require.GreaterOrEqual(s.t, at, 0, "ADDR=%q: no page says that", addr)
	file, err := s.quick[at].(*net.TCPListener).File()
	require.NoError(s.t, err)
	run := exec.Command(program)
	run.Env = append(os.Environ(), "TALLYSTICK_SECRET="+secret)
	run.ExtraFiles, run.Stderr = []*os.File{file}, os.Stderr
	require.NoError(s.t, run.Start())
	s.t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		_ = file.Close()
	})
}

// do runs commands that must succeed.
func (s *session) do(commands string) string {
	s.t.Helper()
	out, status := s.run(commands)
	require.Equal(s.t, "0", status, "%s\n%s\n%s", commands, out, s.said)
	return out
}

// port is where a listener of TCP listens.
func port(l net.Listener) string { return strconv.Itoa(l.Addr().(*net.TCPAddr).Port) }

// run runs commands and returns what they print, with the pages' names for the servers,
// and the status of the last.
func (s *session) run(commands string) (out, status string) {
	s.t.Helper()
	const end = "--- that was all, and the status is "
	ours := strings.NewReplacer(demoURL, s.front.URL, quickHost, "127.0.0.1", quickPort, port(s.quick[0]), secondPort, port(s.quick[1]))
	_, err := fmt.Fprintf(s.input, "{ %s\n} </dev/null\nprintf '\\n%s%%s\\n' $?\n", ours.Replace(commands), end)
	require.NoError(s.t, err)
	var printed strings.Builder
	for {
		line, err := s.output.ReadString('\n')
		require.NoError(s.t, err, "%s: the shell has ended: %s", commands, s.said)
		if status, ended := strings.CutPrefix(line, end); ended {
			out := strings.ReplaceAll(printed.String(), s.front.URL, demoURL)
			return strings.Trim(out, "\n"), strings.TrimSuffix(status, "\n")
		}
		printed.WriteString(line)
	}
}

var (
	// A challenge begins with its version; it may be shortened here, and a proof has its
	// numbers behind it.
	challenges = regexp.MustCompile(`\bA(?:[A-Za-z0-9_-]{11}…|[A-Za-z0-9_-]{60,})(~[0-9.]+…?)?`)
	pseudonyms = regexp.MustCompile(`"(sub|fam)":"[^"]*"`)
	waits      = regexp.MustCompile(`(Retry-After: |Try again in )\d+`)
	lineEnds   = regexp.MustCompile(`(?m)[ \r]+$`)
	spaces     = regexp.MustCompile(` {2,}`)
)

// shorten cuts what is long and different each time.
func shorten(output string) string {
	return challenges.ReplaceAllStringFunc(lineEnds.ReplaceAllString(output, ""), func(long string) string {
		challenge, numbers, proof := strings.Cut(long, "~")
		if challenge = challenge[:min(12, len(challenge))] + "…"; proof {
			first, _, _ := strings.Cut(numbers, ".")
			challenge += "~" + first + "…"
		}
		return challenge
	})
}

// same replaces what may differ between two runs of one session.
func same(output string) string {
	output = challenges.ReplaceAllStringFunc(output, func(long string) string {
		if strings.Contains(long, "~") {
			return "…~…"
		}
		return "…"
	})
	output = pseudonyms.ReplaceAllStringFunc(output, func(claim string) string { return claim[:len(`"sub"`)] + strings.Repeat("…", len(claim)) })
	output = waits.ReplaceAllString(output, "${1}N")
	lines := strings.Split(spaces.ReplaceAllString(output, " "), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// play runs a console block, and returns it with the output of now.
func (s *session) play(b pages.Block) string {
	s.t.Helper()
	var now strings.Builder
	for step := range strings.SplitSeq(strings.TrimPrefix(b.Text, "$ "), "\n$ ") {
		command, want, _ := strings.Cut(step, "\n")
		got, status := s.run(strings.TrimSuffix(command, " &"))
		// "base64 -d" complains that JWTs have no padding.
		require.True(s.t, status == "0" || strings.HasSuffix(command, "2>/dev/null"), "%s:%d: %s: %s\n%s", b.Page, b.Line, command, got, s.said)
		want = strings.TrimSuffix(want, "\n")
		if same(want) != same(got) {
			require.True(s.t, *update, "%s:%d: %s\nwants\n%s\nbut is\n%s", b.Page, b.Line, command, want, got)
			want = shorten(got)
		}
		now.WriteString("$ " + command + "\n")
		if want != "" {
			now.WriteString(want + "\n")
		}
	}
	return now.String()
}

func TestSessions(t *testing.T) {
	files := kit.Must(filepath.Glob("../docs/*.md"))(t)
	played := 0
	for _, page := range append(files, "../README.md") {
		blocks, _, err := pages.Read(page)
		require.NoError(t, err)
		text := kit.Must(os.ReadFile(page))(t)
		fresh := string(text)
		var s *session
		for _, b := range blocks {
			if b.Language != "sh" && b.Language != "console" || b.RunBy != "" {
				continue
			}
			if s == nil {
				s = newSession(t)
			}
			played++
			if b.Language == "sh" {
				require.Empty(t, s.do(b.Text), "%s:%d prints: make it a console", page, b.Line)
				continue
			}
			require.True(t, strings.HasPrefix(b.Text, "$ "), "%s:%d", page, b.Line)
			fresh = strings.Replace(fresh, "```console\n"+b.Text, "```console\n"+s.play(b), 1)
		}
		if *update && fresh != string(text) {
			require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		}
	}
	require.GreaterOrEqual(t, played, 4)
}

// TestTryIt sends what docs/operations.md says: twice the quota, each request from an
// address that the client has made up.
func TestTryIt(t *testing.T) {
	blocks, _, err := pages.Read("../docs/operations.md")
	require.NoError(t, err)
	for _, b := range blocks {
		if b.RunBy != t.Name() {
			continue
		}
		s := newSession(t)
		s.do("go run ./demo -instances 1")
		require.Contains(t, b.Text, "https://example.com/contact")
		statuses := strings.Fields(s.do(strings.Replace(b.Text, "https://example.com", demoURL, 1)))
		require.Len(t, statuses, 10)
		for i, status := range statuses {
			require.Equal(t, i >= 5, status == "429", "%v: five must pass and five be refused", statuses)
		}
		return
	}
	t.Fatal("docs/operations.md does not say how to try it")
}

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
	n := kit.Must(conn.Read(buffer))(t)
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
	rest := kit.Must(io.ReadAll(conn))(t)
	require.Contains(t, string(rest), "HTTP/1.1 200 OK")
	require.Contains(t, string(rest), `{"accepted":true}`)
	<-s.done
	require.NoError(t, s.err)

	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
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

	o = kit.Must(parse([]string{"-addr", "[::1]:0", "-instances=2", "-secret-file", "s", "-work=4096", "-crowd=2"}, io.Discard))(t)
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
		n := kit.Must(strconv.Atoi(m[2]))(t)
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
