// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// everyKey has each key of a policy that sets a field of its name, at a value that is no default.
const everyKey = `{"policies": {"api": {
	"limits": [
		{"name": "burst", "algorithm": "token-bucket", "quota": 2, "window": "1s", "burst": 5},
		{"name": "day", "quota": 200, "window": "24h", "shadow": true}],
	"tiers": {"pro": {"limits": [
		{"name": "burst", "algorithm": "token-bucket", "quota": 3, "window": "1s", "burst": 6},
		{"name": "day", "quota": 300, "window": "24h", "shadow": true}]}},
	"units": {"tokens": {"limits": ["burst"]}},
	"limitsFor": {"life": "5m", "deadline": "20ms", "customers": 100},
	"instances": 4, "tokenTransport": "cookie-only", "maxClients": 1024,
	"advanced": {"net56Factor": 3, "net48Factor": 5,
		"embeddedCookie": true, "insecureCookie": true, "insecureNoMemory": true},
	"challenge": {"mode": "when-busy", "busyPerSecond": 40, "busyAtOnce": 30, "work": 1024, "nonceOnly": true, "crowd": 9, "salesPerHour": 21, "passTime": "1h30m",
		"bindOwn": true, "waitingRoom": 6, "noWaitingRoom": true, "path": "/t/"},
	"exact": {"outage": "fail-open", "contended": "fail-closed", "deadline": "80ms", "inFlight": 12, "payingTiers": ["pro"]},
	"concurrency": {"max": 3, "tiers": {"pro": 8}, "maxHold": "20s", "cancelHeld": true},
	"byOutcome": {"limits": ["day"], "free": [200, 303]},
	"quiet": true, "fields": ["ratelimit", "x-ratelimit-in-seconds"], "shadow": true}}}`

func TestEveryKeySetsItsField(t *testing.T) {
	var f fileKeys
	require.NoError(t, readShape("f", []byte(everyKey), &f).err())
	got := configOf("api", f.Policies["api"], middleware.Config{})
	require.Equal(t, middleware.Config{
		Policy: "api",
		Limits: []middleware.Limit{
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 2, Window: time.Second, Burst: 5},
			{Name: "day", Quota: 200, Window: 24 * time.Hour, Shadow: true},
		},
		Tiers: map[string][]middleware.Limit{"pro": {
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 3, Window: time.Second, Burst: 6},
			{Name: "day", Quota: 300, Window: 24 * time.Hour, Shadow: true},
		}},
		Units:          map[string]middleware.Unit{"tokens": {Limits: []string{"burst"}}},
		LimitsFor:      &middleware.LimitsFor{Life: 5 * time.Minute, Deadline: 20 * time.Millisecond, Customers: 100},
		Instances:      4,
		TokenTransport: middleware.CookieOnly,
		MaxClients:     1024,
		Challenge: &middleware.Challenge{
			Mode: middleware.WhenBusy, BusyPerSecond: 40, BusyAtOnce: 30, Work: 1024, NonceOnly: true, Crowd: 9, SalesPerHour: 21, PassTime: 90 * time.Minute,
			BindOwn: true, WaitingRoom: 6, NoWaitingRoom: true, Path: "/t/",
		},
		Exact: &middleware.Exact{
			Outage: middleware.FailOpen, Contended: middleware.FailClosed, Deadline: 80 * time.Millisecond, InFlight: 12, PayingTiers: []string{"pro"},
		},
		Concurrency: &middleware.Concurrency{
			Max: 3, Tiers: map[string]int{"pro": 8}, MaxHold: 20 * time.Second, CancelHeld: true,
		},
		ByOutcome: &middleware.ByOutcome{Limits: []string{"day"}, Free: []int{200, 303}},
		Advanced: middleware.Advanced{
			Net56Factor: 3, Net48Factor: 5,
			EmbeddedCookie: true, InsecureCookie: true, InsecureNoMemory: true,
		},
		Quiet:  true,
		Fields: middleware.RateLimitFields | middleware.XRateLimitInSeconds,
		Shadow: true,
	}, got)
	requireAll(t, reflect.ValueOf(*f.Policies["api"]), "")
}

// requireAll checks that everyKey has every key, so that a new one is in it too.
func requireAll(t *testing.T, v reflect.Value, at string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		requireAll(t, v.Elem(), at)
	case reflect.Struct:
		for f, v := range v.Fields() {
			if f.Name == "_" || f.Tag.Get("file") == "apart" || f.Type == reflect.TypeFor[[]limitKeys]() {
				continue
			}
			require.False(t, v.IsZero(), "%s%s is not in everyKey: add its key there, and its value to the Config of this test", at, f.Name)
			requireAll(t, v, at+f.Name+".")
		}
	}
}

// What the file leaves out stays as the program has it, and the program's own values are never
// written to: they are the base of the next file too.
func TestWhatTheFileLeavesOutStays(t *testing.T) {
	base := middleware.Config{
		Quiet:          true,
		TokenTransport: middleware.MemoryOnly,
		Challenge:      &middleware.Challenge{Work: 77, Path: "/t/", WaitingRoom: 3},
		Concurrency:    &middleware.Concurrency{Max: 3, Tiers: map[string]int{"pro": 8}},
		Tiers:          map[string][]middleware.Limit{"pro": {{Quota: 9, Window: time.Minute}}},
		Secrets:        [][]byte{[]byte("s")},
		Units:          map[string]middleware.Unit{"bytes": {Cost: func(*http.Request) int64 { return 3 }, Limits: []string{"day"}}},
	}
	var f fileKeys
	require.NoError(t, readShape("f", []byte(`{"policies": {"api": {"limits": [{"quota": 1, "window": "1m"}],
		"units": {"bytes": {"limits": ["api"]}, "tokens": {"limits": ["api"]}},
		"challenge": {"crowd": 2, "noWaitingRoom": false}, "shadow": false}}}`), &f).err())
	got := configOf("api", f.Policies["api"], base)
	want := base
	want.Policy, want.Limits = "api", []middleware.Limit{{Quota: 1, Window: time.Minute}}
	want.Challenge = &middleware.Challenge{Work: 77, Path: "/t/", Crowd: 2, WaitingRoom: 3}
	require.EqualValues(t, 3, got.Units["bytes"].Cost(nil), "the program's")
	require.Equal(t, []string{"api"}, got.Units["bytes"].Limits)
	require.Equal(t, middleware.Unit{Limits: []string{"api"}}, got.Units["tokens"])
	require.Equal(t, []string{"day"}, base.Units["bytes"].Limits)
	want.Units, got.Units = nil, nil
	require.Equal(t, want, got)
	require.Zero(t, base.Challenge.Crowd)
	require.NotSame(t, base.Challenge, got.Challenge)
}
