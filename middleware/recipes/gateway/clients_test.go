// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/proof/kit"
)

// pythonRetries is the rule of openai-python, as its README (Retries) and src/openai/_base_client.py (_should_retry,
// _calculate_retry_timeout) have it: X-Should-Retry decides, or else the status. It waits as long as Retry-After says, if that is a
// minute at most, and else half a second. No Python runs here.
func pythonRetries(a loopback.Answer) (again bool, wait time.Duration) {
	again = a.Status == 408 || a.Status == 409 || a.Status == 429 || a.Status >= 500
	switch a.Header.Get("X-Should-Retry") {
	case "true":
		again = true
	case "false":
		again = false
	}
	wait = 500 * time.Millisecond
	if s, err := strconv.ParseFloat(a.Header.Get("Retry-After"), 64); err == nil && 0 < s && s <= 60 {
		wait = time.Duration(s * float64(time.Second))
	}
	return again, wait
}

// Each refusal is an error that the clients read, and by the rule of the Python client a request is sent again if and only if it is
// admitted then.
func TestRefusalsByTheRuleOfThePythonClient(t *testing.T) {
	spend := func(what string, times int, apart time.Duration) func(*testing.T, *site) {
		return func(t *testing.T, s *site) {
			for range times {
				require.Equal(t, http.StatusOK, s.ask(t, "sk-ada", what, "").Status)
				s.wait(apart)
			}
		}
	}
	for name, c := range map[string]struct {
		before    func(*testing.T, *site)
		key, more string
		status    int
		kind      string
		code      string
		again     bool
	}{
		"requests of a minute":  {spend("use 0", 60, 0), "sk-ada", "", 429, "requests", "rate_limit_exceeded", true},
		"tokens of a minute":    {spend("use 90000", 1, 0), "sk-ada", "", 429, "tokens", "rate_limit_exceeded", true},
		"tokens of a month":     {spend("use 90000", 112, time.Minute), "sk-ada", "", 429, "tokens", "insufficient_quota", false},
		"an estimate too large": {spend("use 0", 0, 0), "sk-ada", `,"max_tokens":100000`, 403, "tokens", "request_too_large", false},
		"no key":                {spend("use 0", 0, 0), "", "", 401, "invalid_request_error", "invalid_api_key", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "")
			c.before(t, s)
			a := s.ask(t, c.key, "use 0", c.more)
			require.Equal(t, c.status, a.Status, a.Body)
			var body struct {
				Error struct{ Message, Type, Code string }
			}
			require.NoError(t, json.Unmarshal([]byte(a.Body), &body))
			require.Equal(t, c.kind, body.Error.Type)
			require.Equal(t, c.code, body.Error.Code)
			require.NotEmpty(t, body.Error.Message)
			again, wait := pythonRetries(a)
			require.Equal(t, c.again, again)
			s.wait(wait)
			require.Equal(t, again, s.ask(t, c.key, "use 0", c.more).Status == http.StatusOK, "sent again after %s", wait)
		})
	}
}

// A refusal says what is left.
func TestARefusalSaysWhatIsLeft(t *testing.T) {
	s := newSite(t, "")
	s.ask(t, "sk-ada", "use 90000", "")
	a := s.ask(t, "sk-ada", "use 0", "")
	require.EqualValues(t, 0, left(t, a, "Tokens"))
	require.Equal(t, "90000", a.Header.Get("X-Ratelimit-Limit-Tokens"))
	require.Equal(t, "1s", a.Header.Get("X-Ratelimit-Reset-Tokens"))
	require.NotEmpty(t, a.Header.Get("Retry-After"))
}

// Five requests at once pass, the sixth does not, and the next does when one of them is done.
func TestFiveAtOnce(t *testing.T) {
	s := newSite(t, "")
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if a := s.ask(t, "sk-ada", "hold", ""); a.Status != http.StatusOK {
				t.Error(a.Status)
			}
		})
	}
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.held == 5
	}, 10*time.Second, time.Millisecond)
	sixth := s.ask(t, "sk-ada", "use 0", "")
	require.Equal(t, http.StatusTooManyRequests, sixth.Status)
	require.Contains(t, sixth.Body, `"message":"Too many requests at once."`)
	require.Equal(t, http.StatusOK, s.ask(t, "sk-bob", "use 0", "").Status)
	s.release()
	wg.Wait()
	require.Eventually(t, func() bool { return s.ask(t, "sk-ada", "use 0", "").Status == http.StatusOK }, 10*time.Second, time.Millisecond)
}

// The client of OpenAI for JavaScript, as npm has it, uses the gateway by its own rules. Where it waits, the clock of the gateway goes on instead.
func TestTheClientOfNPM(t *testing.T) {
	if _, err := os.Stat("testdata/openai/node_modules/openai"); err != nil {
		kit.Unable(t, "there is no client (.ci/need installs it, by npm)")
	}
	if _, err := exec.LookPath("node"); err != nil {
		kit.Unable(t, "there is no node (Debian: apt-get install nodejs)")
	}
	for does, c := range map[string]struct {
		prints string
		sends  int
	}{
		"answer": {"Tally. 42 59 89480", 1},
		"stream": {"Tally. 0 0 59 89476 58 89438", 2},
		"usage":  {"Tally. 42 1 59 89466 58 89438", 2},
		"minute": {"Tally. 1000 59 979", 3},
		"month":  {"RateLimitError 429 insufficient_quota tokens 0", 1},
		"large":  {"PermissionDeniedError 403 request_too_large tokens 0", 1},
		"key":    {"AuthenticationError 401 invalid_api_key invalid_request_error 0", 1},
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			if does == "month" {
				for range 112 {
					s.ask(t, "sk-ada", "use 90000", "")
					s.wait(time.Minute)
				}
			}
			before := s.requests()
			cmd := exec.CommandContext(t.Context(), "node", "testdata/openai/client.mjs", s.url, does)
			cmd.Stderr = os.Stderr
			out := kit.Must(cmd.Output())(t)
			require.Equal(t, c.prints, strings.TrimSpace(string(out)))
			require.Equal(t, c.sends, s.requests()-before)
		})
	}
}
