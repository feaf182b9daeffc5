// SPDX-License-Identifier: Apache-2.0

// Package nats keeps exact counts in a key-value bucket of NATS JetStream, for any number of
// processes and machines that have NATS already:
//
//	store, err := nats.Open(ctx, js, nats.Config{Replicas: 3})
//	counter, err := cas.New(store, cas.Config{})
//
// It is a [cas.Store]: package middleware/exact/cas has what a call costs, what races do, and
// whose clock counts. It needs nats-server 2.11 or later, for times to live of single
// messages, and JetStream. The connection is the caller's: give it a short ReconnectWait, as
// no call is made while there is none.
//
// What it promises, and what it does not:
//
//   - A value is replaced on the condition that its sequence number in the stream is the
//     last of its subject, which the leader of the stream checks. It is read from the leader.
//   - A server that is killed loses nothing that it has answered: it was handed to the operating
//     system. A power cut or a crash of the system may lose more: by default the server has the
//     disk write every two minutes (sync_interval), and answers before that. With one replica a
//     power cut gives back up to two minutes of charges. "sync_interval: always" in the server's
//     configuration gives back none, and an admitted call then takes what the disk takes.
//   - With three replicas a majority has a value before it is answered, in the memory of
//     the operating system: one machine may lose power, and a majority at once may not.
//   - Each value has a time to live, renewed by each charge. A bucket that was made without
//     them, or that forgets by its own age, is refused by Open.
//   - A bucket of limited size, or a server whose disk is full, fails with
//     [exact.ErrFull], also for keys that it has: load, answered 503. Leave MaxBytes alone
//     unless the bucket must not fill a disk that others need.
package nats
