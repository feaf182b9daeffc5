// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/kit"
)

// What SIGHUP does: the secrets and the policies are read again.

const (
	secretA = "the-first-secret-of-32-characters"
	secretB = "another-secret-of-as-many-letters"
)

// A changing demo has its files in a directory of the test's. Its instances are reloaded by
// hand: what a signal does is in TestReloadsUnderLoad.
type changing struct {
	*server
	*instances
	t   *testing.T
	o   options
	dir string
	log *bytes.Buffer
}

// startChanging starts three instances with a policy file, or with a secret file alone.
func startChanging(t *testing.T, files map[string]string) *changing {
	t.Helper()
	c := &changing{t: t, dir: t.TempDir(), log: new(bytes.Buffer), server: &server{}}
	c.seconds.Store(1_800_000_000)
	c.write(files)
	c.o = standard(3)
	c.o.log = slog.New(slog.NewTextHandler(c.log, nil))
	c.o.now = func() time.Time { return time.Unix(c.seconds.Load(), 0) }
	if _, ok := files["policies.json"]; ok {
		c.o.policyFile = filepath.Join(c.dir, "policies.json")
	} else if _, ok := files["secrets"]; ok {
		c.o.secretFile = filepath.Join(c.dir, "secrets")
	}
	secrets, err := loadSecrets(c.o)
	require.NoError(t, err)
	c.instances, err = newInstances(c.o, secrets, memory.New(0, nil))
	require.NoError(t, err)
	s := httptest.NewServer(c.instances)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *changing) write(files map[string]string) {
	c.t.Helper()
	for name, text := range files {
		require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
	}
}

// change writes files, reloads, and returns what the demo logged. What the library says of each instance,
// under a code, is tested where it is said.
func (c *changing) change(files map[string]string) []string {
	c.t.Helper()
	c.write(files)
	c.log.Reset()
	c.reload(c.o)
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(c.log.String()), "\n"), func(line string) bool {
		return strings.Contains(line, " code=")
	})
}

// examplePolicies is the file that comes with the demo, with changes.
func examplePolicies(t *testing.T, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile("policies.json")
	require.NoError(t, err)
	return kit.Replace(t, string(text), oldnew...)
}

const contactLimits = `[{"quota": 5, "window": "1m"}, {"quota": 50, "window": "24h"}]`

func TestExamplePoliciesAreTheProgramsOwn(t *testing.T) {
	file := startChanging(t, map[string]string{"policies.json": examplePolicies(t), "secrets": secretA})
	own := startChanging(t, nil)
	ask := map[string]func(*client) answer{
		"contact":    func(c *client) answer { return c.contact() },
		"newsletter": func(c *client) answer { return c.newsletter() },
		"signup":     func(c *client) answer { return c.pay(c.signup()) },
		"feedback":   func(c *client) answer { return c.pay(c.feedback()) },
		"api":        func(c *client) answer { return c.do("GET", "/api/quote", "", bearer("demo-vendor/maps")) },
	}
	for name, send := range ask {
		a, b := send(file.client(t)), send(own.client(t))
		require.Equal(t, 200, a.StatusCode, "%s: %s", name, a.body)
		require.NotEmpty(t, a.Header.Get("RateLimit-Policy"), name)
		require.Equal(t, b.Header.Get("RateLimit-Policy"), a.Header.Get("RateLimit-Policy"), name)
	}
}

func TestReloadChangesQuotasAndKeepsCounts(t *testing.T) {
	d := startChanging(t, map[string]string{"policies.json": examplePolicies(t), "secrets": secretA})
	c := d.client(t)
	for range 3 {
		require.Equal(t, 200, c.echo().StatusCode)
	}
	logged := d.change(map[string]string{"policies.json": examplePolicies(t,
		contactLimits, `[{"quota": 8, "window": "1m"}, {"quota": 50, "window": "24h"}]`)})
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "level=INFO msg=reloaded since-start.decisions=3 since-start.token-errors=0")
	require.Contains(t, c.echo().Header.Get("RateLimit"), `"contact";r=4;`, "8 less the 4 that were counted, on an instance that saw one of them")
	require.Equal(t, 4, admitted(t, 9, func() answer { return c.echo() }))
}

func TestReloadOfABadFileChangesNothingAndSaysAll(t *testing.T) {
	good := map[string]string{"policies.json": examplePolicies(t), "secrets": secretA}
	for name, test := range map[string]struct {
		files map[string]string
		says  []string // one in each line
	}{
		"three mistakes": {
			map[string]string{"policies.json": examplePolicies(t, contactLimits, `[{"quota": 0, "window": "1m"}, {"quota": 50, "window": "24x"}]`, `"newsletter": {"limits": [{"quota": 10`, `"newsletter": {"limits": [{"quta": 10`)},
			[]string{"policies.contact.limits[0].quota", "policies.contact.limits[1].window", "policies.newsletter.limits[0].quta", "policies.newsletter.limits[0].quota"},
		},
		"the last policy alone": {
			map[string]string{"policies.json": examplePolicies(t, `"feedback": {"limits": [{"quota": 20`, `"feedback": {"limits": [{"quota": -1`, contactLimits, `[{"quota": 1, "window": "1m"}]`)},
			[]string{"policies.feedback.limits[0].quota"},
		},
		"no JSON":          {map[string]string{"policies.json": "{"}, []string{"policies.json"}},
		"a short secret":   {map[string]string{"secrets": secretB + "\nhush\n"}, []string{"secrets"}},
		"no secret at all": {map[string]string{"secrets": "# none\n"}, []string{"secrets"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := startChanging(t, good)
			c := d.client(t)
			require.Equal(t, 200, c.echo().StatusCode)
			logged := d.change(test.files)
			require.Len(t, logged, len(test.says), "%s", logged)
			for _, what := range test.says {
				found := false
				for _, line := range logged {
					require.Contains(t, line, `level=ERROR msg="not reloaded: nothing has changed"`)
					require.NotContains(t, line, "hush")
					found = found || strings.Contains(line, what)
				}
				require.True(t, found, "%s: %s", what, logged)
			}
			require.Contains(t, c.echo().Header.Get("RateLimit"), `"contact";r=3;`)
			require.Equal(t, 3, admitted(t, 9, func() answer { return c.echo() }))

			logged = d.change(good)
			require.Contains(t, logged[0], "msg=reloaded", "once it is mended")
		})
	}
}

func TestRotationInOrderLosesNothing(t *testing.T) {
	d := startChanging(t, map[string]string{"secrets": secretA})
	c := d.client(t)
	for i, ring := range []string{secretA, secretA + "\n" + secretB, secretB + "\n" + secretA, secretB} {
		logged := d.change(map[string]string{"secrets": ring})
		require.Contains(t, logged[0], "since-start.token-errors=0")
		a := c.echo()
		require.Equal(t, 200, a.StatusCode)
		require.Contains(t, a.Header.Get("RateLimit"), `"contact";r=`+string(rune('4'-i))+";")
	}
	logged := d.change(map[string]string{"secrets": secretA})
	require.Contains(t, logged[0], "since-start.token-errors=0")
	require.Equal(t, 200, c.echo().StatusCode)
	logged = d.change(map[string]string{"secrets": secretA})
	require.Contains(t, logged[0], "since-start.token-errors=1", "out of order: the token of before was not accepted")
}

// A ring that one policy would take and the next would not is taken by none. All have the same
// rules today, and that is nothing to build on.
func TestBadSecretsChangeNothing(t *testing.T) {
	d := startChanging(t, map[string]string{"secrets": secretA})
	c := d.client(t)
	require.Equal(t, 200, c.echo().StatusCode)
	logged := d.change(map[string]string{"secrets": secretB + "\nhush\n"})
	require.Len(t, logged, len(d.all[0].own), "a line for each policy, once")
	for _, line := range logged {
		require.Contains(t, line, "Secrets[1]")
		require.NotContains(t, line, "hush")
	}
	require.Contains(t, c.echo().Header.Get("RateLimit"), `"contact";r=3;`)
	logged = d.change(map[string]string{"secrets": secretA + "\n" + secretB})
	require.Contains(t, logged[0], "since-start.token-errors=0")
}

func TestNothingToReload(t *testing.T) {
	d := startChanging(t, nil)
	logged := d.change(nil)
	require.Contains(t, logged[0], "nothing to reload")
	c := d.client(t)
	require.Equal(t, 5, admitted(t, 6, func() answer { return c.echo() }))
	require.NotEmpty(t, c.last)
}
