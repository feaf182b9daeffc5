// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// newTree returns the credential of a tree: an agent has it, and hands it to all that it starts. Only the program that starts
// agents has the secret, because each tree is a budget.
func newTree(secret []byte) string {
	name := rand.Text()
	return name + "." + base64.RawURLEncoding.EncodeToString(sign(secret, name))
}

func sign(secret []byte, name string) []byte {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte("agent tree " + name))
	return mac.Sum(nil)
}

// tree tells whose tree has sent a request. An agent without one is answered 401.
func tree(secret []byte) middleware.IdentityFunc {
	return middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
		name, mac, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
		if given, err := base64.RawURLEncoding.DecodeString(mac); err != nil || !hmac.Equal(given, sign(secret, name)) {
			return middleware.Identity{}, nil
		}
		return middleware.Principal(name), nil
	}, nil)
}

// A tool has a quota in each tree, and a price.
type tool struct {
	quota, price int64
	run          http.Handler
}

// budget serves each tool at its name. Calls of the agents of a tree take from the budget in cfg, and from the tree's
// quota of the tool.
func budget(cfg middleware.Config, secret []byte, tools map[string]tool) (http.Handler, error) {
	cfg.Policy, cfg.Identity = "tree", tree(secret)
	all, err := middleware.New(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Policy, cfg.Limits, cfg.Tiers = "tool", []middleware.Limit{{Name: "calls", Quota: 1, Window: 24 * time.Hour}}, map[string][]middleware.Limit{}
	cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
		id, err := tree(secret)(r)
		id = id.For(path.Base(r.Pattern)) // which is of a route: no client makes it up
		id.Tier = path.Base(r.Pattern)
		return id, err
	}
	for name, t := range tools {
		cfg.Tiers[name] = []middleware.Limit{{Name: "calls", Quota: t.quota, Window: 24 * time.Hour}}
	}
	each, err := middleware.New(cfg)
	mux := http.NewServeMux()
	for name, t := range tools {
		if err == nil {
			mux.Handle("POST /tools/"+name, each.Handler(all.HandlerCost(t.price, t.run)))
		}
	}
	return mux, err
}
