// SPDX-License-Identifier: Apache-2.0

// Package clienttest tells whether a client does its part: echoes the newest token, solves
// challenges, waits as it is told to, and gives up in time.
//
// # What it does not tell
//
// A client that passes is polite, and loses nothing that it could have. It may still be slow,
// leak, or fail under load: each case is a few requests, one after another. Pages and wait
// tickets are for browsers, and have no case.
//
// To wait and to work is a client's choice. One that gives a refusal back to its caller
// instead has Returned, which is no fault.
//
// # Use
//
// A [Server] plays the cases. Each is a real [middleware.Middleware], to which things
// happen: its price rises, its secrets change, an answer is lost. A program that has the
// client, in any language, asks for the cases at /cases and sends their requests in turn.
// The report is at /report. The program middlewaretest/cmd/clienttest does that around a command:
//
//	go run github.com/tallystick/tallystick/middleware/middlewaretest/cmd/clienttest python3 mine.py
//
// docs/clients.md has the cases, the faults, and a whole example.
package clienttest
