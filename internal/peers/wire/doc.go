// SPDX-License-Identifier: Apache-2.0

// Package wire measures what bytes cost: a net/http server over kept connections of the
// loopback device, whose handler sets fields that were made beforehand and computes nothing,
// and a client in the same process that writes a prebuilt request and reads as many bytes as
// the answer has.
//
// Each [Shape] is a request and an answer. All of them have a server and a connection of
// their own, and take turns in short slices, in another order each round. What a shape costs
// is the processor time of the whole process, in which the kernel's part is counted for both
// ends; what it costs more than the bare one is compared within each round, so that a busy
// moment of the machine falls on both.
//
// The client neither parses nor allocates: a real one pays its own part on top, somewhere
// else. TLS is not measured, it encrypts some gigabytes a second.
package wire
