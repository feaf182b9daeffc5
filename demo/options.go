// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"os"
	"time"
)

// A run of the demo depends on its options; nothing else is global.
type options struct {
	addr       string
	verbose    bool   // all that the limiters have to say
	attack     bool   // no site: an attack, in the terminal
	peers      bool   // the instances of the attack hear each other
	picture    string // no site: a file for the picture of an attack
	instances  int
	secretFile string
	policyFile string // says where the secrets are, too
	work       int64  // expected hashes; 0 is a nonce alone, where that is permitted
	crowd      int64
	counter    string // see openCounter
	metrics    *metrics
	reload     <-chan os.Signal // each has the files read again; nil: none
	internal   string           // the credential of services of our own; "": none

	deadline time.Duration // for the counter; 0: the limiter's default. No flag: tests are patient, because their machine may be busy

	stdout io.Writer
	log    *slog.Logger
	limits *slog.Logger     // of the limiters, which have a line for each policy of each instance when they start; nil: log
	now    func() time.Time // the limiters' clock, so that tests need not wait
}

// patience is how long requests under way may take once shutdown has begun.
const patience = 10 * time.Second
