// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/kit"
)

const login = `"login": {"limits": [{"name": "minute", "quota": 5, "window": "1m"}], "maxClients": 2048}`

func TestReloadKeepsCounts(t *testing.T) {
	f, set := opened(t, contact+","+login, "contact", "login")
	limit := set.Middleware("contact")
	for range 5 {
		require.Equal(t, http.StatusOK, get(limit).Code)
	}
	require.Equal(t, http.StatusTooManyRequests, get(limit).Code)
	f.policies(strings.Replace(contact, `"quota": 5,`, `"quota": 7,`, 1) + "," + login)
	require.NoError(t, policyfile.Reload(set))
	require.Same(t, limit, set.Middleware("contact"))
	for range 2 {
		require.Equal(t, http.StatusOK, get(limit).Code)
	}
	require.Equal(t, http.StatusTooManyRequests, get(limit).Code, "five were counted before")
}

// All or nothing: whatever is wrong, and with whichever policy of whichever set, all policies
// stay as they were, and all problems are told.
func TestReloadChangesAllOrNothing(t *testing.T) {
	f, g := newFolder(t), newFolder(t)
	good := strings.Replace(contact, `"quota": 5,`, `"quota": 7,`, 1)
	for name, row := range map[string]struct {
		contact, login string // the new policies
		says           []string
	}{
		"a policy is wrong": {good, `"login": {"limits": [], "maxClients": 2048}`, []string{"policies.login.limits: must have at least 1, not 0"}},
		"both are wrong": {strings.Replace(contact, `"quota": 5,`, `"quota": 0,`, 1), `"login": {"limits": [], "maxClients": 2048}`,
			[]string{"policies.contact.limits[0].quota: must be at least 1, not 0", "policies.login.limits: must have at least 1, not 0"}},
		"what middleware finds": {good, `"login": {"limits": [{"quota": 1, "window": "1ms"}], "maxClients": 2048}`,
			[]string{"policies.login.limits[0].window: must be whole seconds"}},
		"a policy more":       {good, login + `, "more": {"limits": [{"quota": 1, "window": "1m"}]}`, []string{"policies.more: is no policy of this program"}},
		"a policy is gone":    {good, `"x": {"limits": [{"quota": 1, "window": "1m"}]}`, []string{"policies.x: is no policy of this program", "policies.login: is missing"}},
		"the memory's size":   {good, strings.Replace(login, "2048", "4096", 1), []string{"policies.login.maxClients: is 2048 and cannot change while serving"}},
		"where endpoints are": {good, strings.Replace(login, `"maxC`, `"challenge": {"path": "/other/"}, "maxC`, 1), []string{"policies.login.challenge.path: cannot change while serving"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := f.policies(contact + "," + login)
			set, err := policyfile.Open(path, serving("contact", "login"))
			require.NoError(t, err)
			other := kit.Must(policyfile.Open(g.policies(contact), serving("contact")))(t)
			f.policies(row.contact + "," + row.login)
			g.policies(strings.Replace(contact, `"quota": 5,`, `"quota": 9,`, 1))

			err = policyfile.Reload(other, set)
			for _, says := range row.says {
				require.ErrorContains(t, err, says)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(row.says))
			for _, m := range []*middleware.Middleware{set.Middleware("contact"), set.Middleware("login"), other.Middleware("contact")} {
				require.Contains(t, get(m).Header().Get("RateLimit-Policy"), `"minute";q=5;w=60`)
			}

			f.policies(good + "," + login)
			require.NoError(t, policyfile.Reload(other, set))
			require.Contains(t, get(set.Middleware("contact")).Header().Get("RateLimit-Policy"), "q=7")
			require.Contains(t, get(other.Middleware("contact")).Header().Get("RateLimit-Policy"), "q=9")
		})
	}
}

// afterStart leaves out the lines that each policy writes at start.
type afterStart struct{ io.Writer }

func (w afterStart) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(" code=configured ")) || bytes.Contains(line, []byte(" code=bounds ")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// The log, and LastReload, tell what became of the last reload.
func TestReloadIsTold(t *testing.T) {
	f := newFolder(t)
	var log bytes.Buffer
	p := serving("contact")
	p.Logger = slog.New(slog.NewTextHandler(afterStart{&log}, nil))
	path := f.policies(contact)
	set := kit.Must(policyfile.Open(path, p))(t)
	require.Empty(t, log.String())
	opened := kit.Must(set.LastReload())(t)
	require.False(t, opened.IsZero())

	f.policies(strings.Replace(contact, `"quota": 5,`, `"quota": 0,`, 1))
	failed := policyfile.Reload(set)
	require.Error(t, failed)
	success, err := set.LastReload()
	require.Equal(t, failed, err)
	require.Equal(t, opened, success)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "code=reload-failed file="+path+" error=")
	require.Contains(t, log.String(), "policies.contact.limits[0].quota: must be at least 1, not 0")

	log.Reset()
	f.policies(contact)
	require.NoError(t, policyfile.Reload(set))
	success = kit.Must(set.LastReload())(t)
	require.False(t, success.Before(opened))
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "level=INFO")
	require.Contains(t, log.String(), "code=reloaded file="+path+" ")
}

// A set whose own file is right has not been reloaded either, if another's is wrong.
func TestReloadOfSeveralIsTold(t *testing.T) {
	f, g := newFolder(t), newFolder(t)
	right := kit.Must(policyfile.Open(f.policies(contact), serving("contact")))(t)
	wrong := kit.Must(policyfile.Open(g.policies(contact), serving("contact")))(t)
	g.policies(`"contact": {}`)
	failed := policyfile.Reload(right, wrong)
	for _, set := range []*policyfile.Set{right, wrong} {
		_, err := set.LastReload()
		require.Equal(t, failed, err)
	}
}

// The endpoints stay where they were mounted, though a challenge may go and come.
func TestAChallengeMayGoAndComeAgain(t *testing.T) {
	with := strings.Replace(contact, `}]}`, `}], "challenge": {"path": "/tally/contact/"}}`, 1)
	f, set := opened(t, with, "contact")
	for _, text := range []string{contact, with} {
		f.policies(text)
		require.NoError(t, policyfile.Reload(set))
	}
	require.Contains(t, set.Middleware("contact").ScriptURL(), "/tally/contact/")
}

// Secrets rotate in their file, and tokens of the old one are taken meanwhile.
func TestSecretsRotate(t *testing.T) {
	f, set := opened(t, contact, "contact")
	limit := set.Middleware("contact")
	kid := func(token string) string { head, _, _ := strings.Cut(token, "."); return head }
	before := get(limit).Header().Get("Tallystick-Token")
	f.put("ring", strings.Repeat("new ", 10)+"\n"+secretText+"\n")
	require.NoError(t, policyfile.Reload(set))
	after := get(limit, func(r *http.Request) { r.Header.Set("Tallystick-Token", before) })
	require.NotEqual(t, kid(before), kid(after.Header().Get("Tallystick-Token")), "the new one signs")
	require.Contains(t, after.Header().Get("RateLimit"), `"minute";r=3`, "what the old one signed counts")

	f.put("ring", secretText[:31])
	require.ErrorContains(t, policyfile.Reload(set), "secrets[0]: must be at least 32 random bytes, not 31: `openssl rand -base64 32` makes one")
	require.NotContains(t, policyfile.Reload(set).Error(), "hush")
	require.Equal(t, http.StatusOK, get(limit).Code)
}

// Under load each answer comes from one configuration: no answer mixes two.
func TestNoRequestSeesHalfOfAConfiguration(t *testing.T) {
	f := newFolder(t)
	texts := []string{
		`"contact": {"limits": [{"name": "a", "quota": 1000000, "window": "1m"}], "fields": ["ratelimit", "x-ratelimit-in-seconds"], "tokenTransport": "header-only"}`,
		`"contact": {"limits": [{"name": "b", "quota": 2000000, "window": "1m"}], "advanced": {"insecureCookie": true}, "tokenTransport": "cookie-only"}`,
	}
	set := kit.Must(policyfile.Open(f.policies(texts[0]), serving("contact")))(t)
	limit := set.Middleware("contact")
	var done atomic.Bool
	var group sync.WaitGroup
	var seen [2]atomic.Int64
	for range 4 {
		group.Go(func() {
			for !done.Load() {
				h := get(limit).Header()
				got := fmt.Sprintf("%s|%s|%v|%v", h.Get("RateLimit-Policy"), h.Get("X-RateLimit-Limit"), h.Get("Tallystick-Token") != "", strings.HasPrefix(h.Get("Set-Cookie"), "tallystick-contact="))
				switch got {
				case `"a";q=1000000;w=60|1000000|true|false`:
					seen[0].Add(1)
				case `"b";q=2000000;w=60||false|true`:
					seen[1].Add(1)
				default:
					t.Errorf("half of each: %s", got)
					return
				}
			}
		})
	}
	for i := 0; i < 40 || seen[0].Load() == 0 || seen[1].Load() == 0; i++ {
		if t.Failed() {
			break // a worker is gone
		}
		f.policies(texts[(i+1)%2])
		if err := policyfile.Reload(set); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	group.Wait()
}

// Sets of one file are sets of one reading: what is wrong with the file is told once.
func TestReloadReadsAFileOnce(t *testing.T) {
	f := newFolder(t)
	path := f.policies(contact)
	var sets []*policyfile.Set
	for range 3 {
		set := kit.Must(policyfile.Open(path, serving("contact")))(t)
		sets = append(sets, set)
	}
	f.policies("]")
	err := policyfile.Reload(sets...)
	require.Equal(t, 1, strings.Count(err.Error(), path), err)
	require.NoError(t, os.Remove(path))
	err = policyfile.Reload(sets...)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), path), err)
}

// Policies without a logger have the program's.
func TestLoggerOfTheProgram(t *testing.T) {
	f := newFolder(t)
	var log strings.Builder
	p := serving("contact")
	p.Logger = slog.New(slog.NewTextHandler(&log, nil))
	set := kit.Must(policyfile.Open(f.policies(strings.Replace(contact, `}]}`, `}], "challenge": {"path": "/tally/contact/", "mode": "newcomers"}}`, 1)), p))(t)
	get(set.Middleware("contact"))
	require.Contains(t, log.String(), "policy=contact")
}
