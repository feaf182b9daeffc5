// SPDX-License-Identifier: Apache-2.0

// Package ring makes one exact counter of the processes of a program, without a store: each owns a part of the
// keys, keeps their accounts in its memory, and is asked by the others, over [remote]. Its own keys cost it no
// request. It is for processes that reach each other's addresses, such as those of Fly, of Kubernetes, or of some
// machines of yours.
//
//	counter, err := ring.Open(ring.Config{
//		Self:    net.JoinHostPort(os.Getenv("FLY_PRIVATE_IP"), "9000"),
//		DNS:     "my-app.internal:9000",
//		Secrets: [][]byte{secret}, // of the ring's own
//	})
//
// The owner of a key is the member whose keyed hash with it is largest (Thaler and Ravishankar: A Name-Based
// Mapping Scheme for Rendezvous, 1996), so that a member that comes or goes moves one key in N, and no client
// can choose keys that one member owns.
//
// # What it bounds
//
// Two things hold whatever happens. A process admits at most L of a key in a window: its memory counts what it
// admits, and no answer is given that is not counted there. And no count is believed that is above the true one,
// but for what was given back since. Hence a client gets L·O, where O counts the processes that have owned its
// key within the window. In quiet O is 1. It grows by one for each change of the members that moves the key, for
// a process that starts anew, and for each further process that some list names as owner, while the lists
// differ. No client causes any of these.
//
// Accounts are not handed over, for that can fail in ways that nobody sees. In place of it a call says what the
// request's token and the memory of the asking process know ([exact.Call].Known), and an account counts that at
// least, unless something was given back to it. A memory that was full, where newcomers go on from the counts of
// others, says nothing. So a client that echoes its token keeps L whatever comes and goes. See docs/proof.md.
//
// What a request settles below its estimate before its response begins is in its token. Of what it settles later a new
// owner hears nothing: it counts the estimate, as the newest token does, and the client gets so much less than L until
// the windows of that charge end, or its bucket has leaked it.
//
// # What is slow is not dead
//
// An owner that does not answer is an outage of its keys, and the policy says what then. The next in line is asked
// only when the list has dropped the owner. Else who floods one key until its owner is late would have an
// account at each member in turn.
//
// A call that is asked again after its key has moved may be charged twice, and no more than that. What was
// charged at an owner that is none any more does not come back. Accounts cannot be listed.
//
// Calls are signed by the secrets for the one member that they are for, and are not encrypted: see [remote]. The
// first secret decides who owns what, so that a rotation moves all keys, once.
package ring
