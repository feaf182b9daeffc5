// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
)

// trips are the rows of what a request costs where it is served for real. In fields our fields go in
// both directions, and nothing is computed.
func trips() []request {
	post, us, bare := http.MethodPost, overBuilder(ours()), overBuilder(limiters["bare"])
	return []request{
		{none, "", "", shown(bare, nil)},
		{"fields", "", "", echo(post, byHeader, overBuilder(fieldsAlone))},
		{reference, "", "", shown(overBuilder(limiters[reference]), nil)},
		{"throttled", "", "", shown(overBuilder(limiters["throttled"]), nil)},
		{lowest, "", "", echo(post, byHeader, overBuilder(newFloor))},
		{ourName + "-post", "", "", echo(post, byHeader, us)},
		{ourName + "-hop", "", "", echo(post, byHeader, us, us)},
		{ourName + "-cookie-post", "", "", echo(post, byCookie, us)},
	}
}

func overBuilder(b builder) builder {
	return func(o *opening, t terms) http.Handler { return overHTTP(o, b(o, t)) }
}

// fieldsAlone sends the fields of answers of ours as they stood in two: to no token, and to one by
// header.
func fieldsAlone(o *opening, t terms) http.Handler {
	a := newAsker(http.MethodPost, ours()(o, t))
	a.run(1)
	first := a.w.header.Clone()
	a.show(byHeader, first[byHeader])
	a.run(1)
	after, next := a.w.header.Clone(), served()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := after
		if r.Header[byHeader] == nil {
			fields = first
		}
		maps.Copy(w.Header(), fields)
		next.ServeHTTP(w, r)
	})
}

func openServed(s *settings, o *opening) (all []player) {
	for _, t := range trips() {
		if s.wants(t.name) {
			all = append(all, t.open(o).player(t.name))
		}
	}
	return all
}
