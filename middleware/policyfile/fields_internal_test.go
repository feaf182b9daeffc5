// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// Every field of these types has a key of its name and type, or is named here with the reason
// why a file cannot have it. A new field needs a key, or a line.
func TestEveryFieldHasAKey(t *testing.T) {
	covers(t, reflect.TypeFor[middleware.Config](), reflect.TypeFor[policyKeys](), "", map[string]string{
		"Policy":         "it is the name under which the policy stands",
		"Cost":           "code",
		"Peers":          "a group of the program",
		"LimitsFor.Func": "code",
		"Skip":           "code",
		"RefusalHandler": "code",
		"PageHandler":    "code",
		"OnDecision":     "code",
		"Logger":         "code",
		"Now":            "code",
	})
}

// covers checks that keys have what of has, and nothing else.
func covers(t *testing.T, of, keys reflect.Type, at string, exempt map[string]string) {
	t.Helper()
	for f := range of.Fields() {
		path := at + f.Name
		key, there := keys.FieldByName(f.Name)
		if _, is := exempt[path]; is || f.Name == "_" {
			require.False(t, is && there, "%s has a key", path)
			continue
		}
		require.True(t, there, "%s has neither a key in keys.go nor a line here", path)
		require.Equal(t, strings.ToLower(f.Name[:1])+f.Name[1:], key.Tag.Get("json"), path)
		require.NotEmpty(t, key.Tag.Get("doc"), path)
		if key.Tag.Get("file") == "apart" {
			continue
		}
		bare := func(typ reflect.Type) reflect.Type {
			for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice && (typ.Elem().Kind() == reflect.Struct || words[typ.Elem()] != nil) {
				typ = typ.Elem()
			}
			return typ
		}
		if to, from := bare(f.Type), bare(key.Type); to.Kind() == reflect.Struct {
			covers(t, to, from, path+".", exempt)
		} else {
			require.Equal(t, to, from, path)
		}
	}
	for f := range keys.Fields() {
		_, there := of.FieldByName(f.Name)
		require.True(t, there, "%s%s sets no field", at, f.Name)
	}
}

// Every constant has a word: middleware knows no value after the last.
func TestWords(t *testing.T) {
	type config = middleware.Config
	for typ, set := range map[reflect.Type]func(*config, uint8){
		reflect.TypeFor[storeless.Algorithm](): func(c *config, v uint8) { c.Limits[0].Algorithm = storeless.Algorithm(v) },
		reflect.TypeFor[middleware.Mode](): func(c *config, v uint8) {
			c.Challenge = &middleware.Challenge{Mode: middleware.Mode(v)}
			if c.Challenge.Mode == middleware.WhenBusy {
				c.Challenge.BusyAtOnce = 1
			}
		},
		reflect.TypeFor[middleware.TokenTransport](): func(c *config, v uint8) { c.TokenTransport = middleware.TokenTransport(v) },
		reflect.TypeFor[middleware.Fields]():         func(c *config, v uint8) { c.Fields = middleware.Fields(v) },
		reflect.TypeFor[middleware.Outage]():         func(c *config, v uint8) { c.Exact.Outage = middleware.Outage(v) },
	} {
		problem := func(value uint8) error {
			c := config{
				Policy: "p", Limits: []middleware.Limit{{Quota: 1, Window: 24 * time.Hour}}, Secrets: [][]byte{[]byte(strings.Repeat("s", 32))},
			}
			if typ == reflect.TypeFor[middleware.Outage]() || typ == reflect.TypeFor[storeless.Algorithm]() {
				c.Exact = &middleware.Exact{Counter: memory.New(0, nil), Outage: middleware.FailOpen}
			}
			set(&c, value)
			return new(middleware.Middleware).Validate(c)
		}
		last := uint8(0)
		texts := map[string]bool{}
		for _, w := range words[typ] {
			require.NoError(t, problem(w.value), "%s %s", typ, w.text)
			texts[w.text], last = true, max(last, w.value)
			if v, ok := reflect.ValueOf(w.value).Convert(typ).Interface().(fmt.Stringer); ok {
				require.Equal(t, v.String(), w.text)
			}
		}
		require.Len(t, texts, len(words[typ]))
		next := last + 1
		if typ == reflect.TypeFor[middleware.Fields]() { // bits
			next = last << 1
		}
		require.Error(t, problem(next), "%s has more values than words", typ)
	}
}

func TestPathsOfFields(t *testing.T) {
	for field, want := range map[string]string{
		"Policy":                     "policy",
		"Limits[1].Quota":            "limits[1].quota",
		`Tiers["pro"]`:               "tiers.pro",
		`Tiers["pro"][0].Quota`:      "tiers.pro.limits[0].quota",
		`Tiers["a\"].[0]"][0].Burst`: `tiers["a\"].[0]"].limits[0].burst`,
		`Tiers[""]`:                  `tiers[""]`,
		"Challenge.WaitingRoom":      "challenge.waitingRoom",
		"ByOutcome":                  "byOutcome",
		`Concurrency.Tiers["pro"]`:   "concurrency.tiers.pro",
		"XRateLimit":                 "xRateLimit",
		"Secrets[3]":                 "secrets[3]",
		"":                           "",
	} {
		require.Equal(t, want, pathOf(field), field)
	}
}
