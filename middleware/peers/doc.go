// SPDX-License-Identifier: Apache-2.0

// Package peers lets the processes of a program hear each other, so that a client gets one limit from all of them and not
// one from each, without a store.
//
//	group, err := peers.Open(peers.Config{DNS: "my-app.internal:9000", Secrets: [][]byte{secret}})
//	// middleware.Config{Peers: group, ...}, in each policy of the program
//	// when the program ends, after http.Server.Shutdown:
//	group.Close(context.Background())
//
// Each process decides on its own, and tells the others in the background. N processes grant a client at most
// L + (N+C−1)·max(f, cost) of a limit L, where C of them start in the window and f is max(2, L/50), or 1 if L is below 2N:
// 118 of 100 on ten. docs/bounds.md has all rows. It is for 2 to 30 processes that reach each other's addresses.
// Serverless functions do not; the rows without peers hold for them.
//
// # What fails, fails loudly
//
// A peer that does not answer for 0.1 s is late, and no request waits for it; one that is silent for 10 s is gone. Then a client
// may get the limit from it once more. The same holds towards a process with another list that does not have it, with other
// Secrets, or with another version. Each of these is a line of the log with a stable code, which names the member:
// docs/checks.md. [Group.Stats] counts them.
//
// # What a stranger can do
//
// The port belongs into a network of your own. A stranger there gets no answer: its first message must have
// a MAC under a secret. At most 256 connections that have shown none are open, each for two seconds; a
// newer one takes the place of the oldest. Each frame of a peer has a MAC over its running number, under
// keys from nonces of both ends, so that a recording is worth nothing. Frames are not encrypted unless
// Config.TLS says so: a listener on the wire reads counts, and keyed hashes for names. docs/wire.md has
// each byte. A hostile member can refuse any client: it has the secrets, as all have.
package peers
