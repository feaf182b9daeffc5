// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/policyfile"
)

func TestSecrets(t *testing.T) {
	const a, b = "the-first-secret-of-32-characters", "the second secret, of more than 32 characters"
	binary := strings.Repeat("\x00\n\xff", 11)
	for text, want := range map[string][]string{
		a:                                  {a},
		a + "\n":                           {a},
		"# old\r\n\r\n  " + a + "\r\n" + b: {a, b},
		"\t" + a + " \n\n\n" + b + "\n#":   {a, b},
		binary:                             {binary},
		"\n# nothing\n":                    nil,
		"":                                 nil,
		"\ufeff" + a:                       nil, // nor is a comment one, which then is no comment
		"\xff\xfea\x00b\x00":               nil,
		"\xef\xbb\xbf" + binary:            {"\xef\xbb\xbf" + binary},
		"\xff\xfe" + a:                     {"\xff\xfe" + a},
	} {
		var got []string
		for _, secret := range policyfile.Secrets([]byte(text)) {
			got = append(got, string(secret))
		}
		require.Equal(t, want, got, "%q", text)
	}
	text := []byte(a)
	secrets := policyfile.Secrets(text)
	clear(text)
	require.Equal(t, a, string(secrets[0]), "it is a copy")
}

// Each source that cannot be used is one problem, though all policies want it, and it shows
// neither what is there nor what the file has in place of a name.
func TestSecretsThatCannotBeHad(t *testing.T) {
	const name = "POLICYFILE_TEST_SECRETS"
	instead := "must not stand in this file: put them in an environment variable or a file of their own"
	for source, want := range map[string]string{
		`{"env": "` + name + `"}`:                 "secrets.env: names an environment variable that holds no secret",
		`{"env": "` + name + `_2"}`:               "secrets.env: names an environment variable that is not set",
		`{"env": "` + secretText + `"}`:           "secrets.env: must be the name of an environment variable",
		`{"file": "none"}`:                        "secrets.file: \"none\" cannot be read in FOLDER: no such file or directory",
		`{"file": "/none"}`:                       "secrets.file: \"/none\" cannot be read: no such file or directory",
		`{"file": "` + secretText + `"}`:          "secrets.file: cannot be read",
		`{"file": "empty"}`:                       "secrets.file: \"empty\" holds no secret",
		`{"file": "large"}`:                       "secrets.file: \"large\" is too large",
		`{"file": "."}`:                           "secrets.file: \".\" cannot be read in FOLDER: not a regular file",
		`{"file": "marked"}`:                      "secrets.file: \"marked\" begins with a byte order mark",
		`{"file": "wide"}`:                        "secrets.file: \"wide\" begins with a byte order mark",
		`{"env": "` + name + `_MARKED"}`:          "secrets.env: names an environment variable whose text begins with a byte order mark",
		`{"file": "ring", "env": "` + name + `"}`: "secrets: must have one of env, file",
		`{}`:                     "secrets: must have one of env, file",
		`"` + secretText + `"`:   instead,
		`["` + secretText + `"]`: instead,
		`{"file": "ring", "` + secretText + `": ""}`: instead,
		`{"file": ["` + secretText + `"]}`:           "secrets.file: must be a string, not a list",
		`null`:                                       instead,
		`{"file": "twice"}`:                          "secrets[1]: is the same as secrets[0] (in \"twice\")",
		`{"env": "` + name + `_SHORT"}`:              "secrets[0]: must be at least 32 random bytes, not 5: `openssl rand -base64 32` makes one (in the variable " + name + "_SHORT)",
		`{"file": "\u0000` + secretText + `"}`:       "secrets.file: must be the path of a file",
		`{"env": {"` + secretText + `": "` + "x\"}}": "secrets.env: must be a string, not an object",
	} {
		f := newFolder(t)
		t.Setenv(name, " \n")
		t.Setenv(name+"_SHORT", "short")
		t.Setenv(name+"_MARKED", "\ufeff"+secretText)
		f.put("marked", "\ufeff# old\n"+secretText)
		f.put("wide", "\xfe\xff\x00"+strings.Join(strings.Split(secretText, ""), "\x00"))
		f.put("empty", "# "+secretText+"\n")
		f.put("large", strings.Repeat(secretText, 4096))
		f.put("twice", secretText+"\n"+secretText)
		path := f.put("policies.json", `{"secrets": `+source+`, "policies": {`+contact+`,`+login+`}}`)
		set, err := policyfile.Open(path, serving("contact", "login"))
		require.Nil(t, set)
		require.ErrorContains(t, err, strings.Replace(want, "FOLDER", f.dir, 1), source)
		require.NotContains(t, err.Error(), "hush")
		require.NotContains(t, err.Error(), `"secrets":`)
	}
}

func TestSecretsFromTheEnvironment(t *testing.T) {
	f := newFolder(t)
	const name = "POLICYFILE_TEST_SECRETS"
	t.Setenv(name, "\n"+strings.Repeat("a", 32)+"\n"+strings.Repeat("b", 32)+"\n")
	path := f.put("policies.json", `{"secrets": {"file": "none"}, "policies": {"contact": {"secrets": {"env": "`+name+`"}, "limits": [{"quota": 5, "window": "1m"}]}}}`)
	_, err := policyfile.Open(path, serving("contact"))
	require.NoError(t, err, "the secrets of all are asked for by no policy")
}

// A user that may write the file may sign tokens. So may a user that may read it, but containers
// mount secrets so.
func TestSecretsThatOthersMayUse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such bits")
	}
	f := newFolder(t)
	var log bytes.Buffer
	p := serving("contact", "login")
	p.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	path, ring := f.policies(contact+","+login), filepath.Join(f.dir, "ring")
	open := func(mode os.FileMode) error {
		log.Reset()
		require.NoError(t, os.Chmod(ring, mode))
		_, err := policyfile.Open(path, p)
		return err
	}
	require.NoError(t, open(0o440))
	require.Empty(t, log.String())
	require.NoError(t, open(0o444))
	require.Equal(t, 1, strings.Count(log.String(), "everybody on this machine may read the secrets"))
	require.Contains(t, log.String(), "code=secrets-readable file="+path+" key=secrets.file remedy=")
	require.ErrorContains(t, open(0o606), "secrets.file: \"ring\" may be written by everybody on this machine")
}

// A policy file with a byte order mark is named so, and not by its first character.
func TestPolicyFileWithAByteOrderMark(t *testing.T) {
	f := newFolder(t)
	for _, mark := range []string{"\ufeff{}", "\xff\xfe{\x00}\x00"} {
		_, err := policyfile.Open(f.put("policies.json", mark), serving("contact"))
		require.ErrorContains(t, err, "policies.json:1: begins with a byte order mark")
	}
}
