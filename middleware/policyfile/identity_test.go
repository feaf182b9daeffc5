// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/kit"
)

// from sends a field that names the client. The peer is 192.0.2.1.
func from(field, client string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(field, client) }
}

const once = `"limits": [{"quota": 1, "window": "1h"}]`

// Each source believes the peers and fields that it should.
func TestIdentities(t *testing.T) {
	for identity, field := range map[string]string{
		`{"from": "forwarded-for", "trusted": ["192.0.2.0/24"]}`:                               "X-Forwarded-For",
		`{"from": "header", "header": "X-Real-IP", "trusted": ["10.0.0.0/8", "192.0.2.1/32"]}`: "X-Real-IP",
		`{"from": "insecure-no-peer", "header": "X-Real-IP", "trusted": ["192.0.2.0/24"]}`:     "X-Real-IP",
		`{"from": "peer"}`: "",
		`{"from": "forwarded-for", "trusted": ["198.51.100.0/24"]}`: "",
	} {
		f := newFolder(t)
		set, err := policyfile.Open(f.policies(`"contact": {`+once+`, "identity": `+identity+`}`), serving("contact"))
		require.NoError(t, err, identity)
		send := func(client string) int {
			return get(set.Middleware("contact"), from("X-Forwarded-For", client), from("X-Real-IP", client)).Code
		}
		require.Equal(t, http.StatusOK, send("203.0.113.1"), identity)
		require.Equal(t, http.StatusTooManyRequests, send("203.0.113.1"), identity)
		if field == "" {
			require.Equal(t, http.StatusTooManyRequests, send("203.0.113.2"), identity)
		} else {
			require.Equal(t, http.StatusOK, send("203.0.113.2"), identity)
		}
	}
	_, set := opened(t, `"contact": {`+once+`, "identity": {"from": "header", "header": "Forwarded", "trusted": ["192.0.2.0/24"]}}`, "contact")
	for client, want := range map[string]int{"for=203.0.113.1": http.StatusOK, "for=203.0.113.2": http.StatusOK} {
		require.Equal(t, want, get(set.Middleware("contact"), from("Forwarded", client)).Code)
	}
}

func TestIdentitiesThatAreWrong(t *testing.T) {
	for identity, want := range map[string]string{
		`{"from": "forwarded-for"}`:                                                   "identity.trusted: name the networks of your proxies",
		`{"from": "forwarded-for", "trusted": ["::ffff:10.0.0.0/104"]}`:               "identity.trusted[0]: would match nothing",
		`{"from": "header", "trusted": ["10.0.0.0/8"]}`:                               "identity.header: is required",
		`{"from": "peer", "trusted": ["10.0.0.0/8"]}`:                                 "identity.trusted: belongs to a field that a proxy writes",
		`{"from": "forwarded-for", "header": "X-Real-IP", "trusted": ["10.0.0.0/8"]}`: "identity.header: belongs to header and insecure-no-peer",
		`{"from": "magic"}`:           "identity.from: must be peer, forwarded-for, header or insecure-no-peer",
		`{"trusted": ["10.0.0.0/8"]}`: "identity.from: is required",
	} {
		f := newFolder(t)
		_, err := policyfile.Open(f.policies(`"contact": {`+once+`, "identity": `+identity+`}`), serving("contact"))
		require.ErrorContains(t, err, "policies.contact."+want, identity)
		_, err = policyfile.Open(f.put("policies.json", `{"identity": `+identity+`, "policies": {"contact": {`+once+`}}}`), serving("contact"))
		require.ErrorContains(t, err, ": "+want, identity)
	}
}

// A policy that has an identity by code keeps it: the file's is for the others, and a file that
// wants to replace it is refused.
func TestIdentityByCodeStays(t *testing.T) {
	f := newFolder(t)
	p := serving("api", "contact")
	p.Policies["api"] = middleware.Config{Identity: func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey(r.Header.Get("Key")), nil
	}}
	file := func(identity string) string {
		return f.put("policies.json", `{"secrets": {"file": "ring"}, "identity": {"from": "forwarded-for", "trusted": ["192.0.2.0/24"]},
			"policies": {"contact": {`+once+`}, "api": {`+once+identity+`}}}`)
	}
	set := kit.Must(policyfile.Open(file(""), p))(t)
	for _, client := range []string{"203.0.113.1", "203.0.113.2"} {
		require.Equal(t, http.StatusOK, get(set.Middleware("contact"), from("X-Forwarded-For", client)).Code)
		require.Equal(t, http.StatusOK, get(set.Middleware("api"), from("Key", client)).Code)
		require.Equal(t, http.StatusTooManyRequests, get(set.Middleware("api"), from("Key", client)).Code)
	}
	file(`, "identity": {"from": "peer"}`)
	require.ErrorContains(t, policyfile.Reload(set), "policies.api.identity: must be left out: the program tells by code of its own who is asking")
}
