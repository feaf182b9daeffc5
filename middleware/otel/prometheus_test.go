// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// patience is when a test gives up on a process: a busy machine may take long.
const patience = 5 * time.Minute

// needs skips a test where a command is not there.
func needs(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if _, err := exec.LookPath(command); err != nil {
			kit.Unable(t, "there is no %s: %v", command, err)
		}
	}
}

// promtool runs promtool.
func promtool(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	run := exec.Command("promtool", args...)
	run.Stdin = stdin
	out, err := run.CombinedOutput()
	require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), out)
}

// A server is a Prometheus.
type server struct{ url string }

// serve starts the Prometheus of this machine on a directory of blocks, on a free port of
// loopback, and returns when it is ready.
func serve(t *testing.T, data string, config string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	for range 10 { // another process may take the port before it does
		if s := start(t, data, file); s != nil {
			return s
		}
	}
	require.Fail(t, "prometheus does not start")
	return nil
}

func start(t *testing.T, data, config string) *server {
	t.Helper()
	address := "127.0.0.1:" + kit.FreePort(t)
	run := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address="+address,
		"--storage.tsdb.retention.time=100y", "--log.level=warn")
	log := &strings.Builder{}
	run.Stdout, run.Stderr = log, log
	require.NoError(t, run.Start())
	ended := make(chan struct{})
	go func() {
		_ = run.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = run.Process.Kill()
		<-ended
	})
	s := &server{"http://" + address}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		if _, err := s.get(ctx, "/-/ready"); err == nil {
			return s
		}
		select {
		case <-ended:
			t.Logf("prometheus has ended: %s", log)
			return nil
		case <-ctx.Done():
			require.Fail(t, "prometheus is not ready", log)
		case <-every.C:
		}
	}
}

func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// query asks at a time, and returns values by the labels' values, in the order of their names.
func (s *server) query(t *testing.T, expr string, at time.Time) map[string]float64 {
	t.Helper()
	body, err := s.get(t.Context(), "/api/v1/query?"+url.Values{"query": {expr}, "time": {strconv.FormatInt(at.Unix(), 10)}}.Encode())
	require.NoError(t, err, expr)
	var answer struct {
		Data struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	require.Equal(t, "vector", answer.Data.ResultType, expr)
	values := map[string]float64{}
	for _, r := range answer.Data.Result {
		var words []string
		for _, label := range sortedKeys(r.Metric) {
			if label != "__name__" {
				words = append(words, r.Metric[label])
			}
		}
		name := strings.Join(words, " ")
		require.NotContains(t, values, name, expr)
		values[name] = kit.Must(strconv.ParseFloat(r.Value[1].(string), 64))(t)
	}
	return values
}

// A Prometheus finds the page by itself, and reads it: the drill feeds it from a file what it would
// have read.
func TestPrometheusScrapes(t *testing.T) {
	needs(t, "prometheus")
	d := newDrill(t)
	d.play(false)
	site := httptest.NewServer(d.metrics)
	defer site.Close()
	target := kit.Must(url.Parse(site.URL))(t)
	s := serve(t, t.TempDir(), `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs:
  - job_name: site
    static_configs: [{targets: ["`+target.Host+`"]}]
`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		body := kit.Must(s.get(ctx, "/api/v1/query?"+url.Values{"query": {`sum by (tallystick_policy) (tallystick_decisions_total{job="site", tallystick_policy="contact"})`}}.Encode()))(t)
		if strings.Contains(string(body), `"4"`) {
			return
		}
		select {
		case <-ctx.Done():
			require.Fail(t, "it reads nothing", "%s", body)
		case <-every.C:
		}
	}
}
