// SPDX-License-Identifier: Apache-2.0

// Package remote serves a counter over HTTP, and calls a served one: other processes
// share the embedded counter of one process, without Redis. It uses only the standard
// library.
//
// It is as exact as the counter behind it, and loses what that loses: a counter of package memory
// loses all with its process, a file next to nothing. While the owner of a key is away, its calls
// fail. No other owner takes over, or there would be two counts. With several owners each key has
// one, by rendezvous hashing over a list that must be the same everywhere: change it, and most keys
// stay, but those that move begin at zero.
//
//	owner:  http.Handle("POST /counter", must(remote.Serve(counter, remote.Config{Secrets: secrets})))
//	others: counter, err := remote.Open([]string{"http://10.0.0.7:9000/counter"}, remote.Config{Secrets: secrets})
//
// Calls and answers are authenticated by a secret that both ends share. Replaying a recorded call admits
// nothing: an owner takes no call that is more than four seconds from its own time, and knows admitted calls by
// their IDs for longer. They are not encrypted: a listener on the wire learns counts, and keys, which package
// middleware hashes. It can also charge a key what was refused a moment ago, see docs/counters.md. Use https
// across networks that are not yours.
//
// Calls that come while a request is out leave together when it is answered, or when that takes
// long: one request to each owner for all keys. The owner makes them concurrently, and answers each
// when it is done. The wire is in docs/counters.md, so that an owner can be written in another
// language. One is in durable/, for Cloudflare's Workers: a Durable Object for each key.
package remote
