// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware/policyfile"
)

// welcome is the text for a terminal: the address first, what to try, and how to stop.
const welcome = `Listening on http://%[1]s/
  /       attackers against real middleware, and a form to try
  /forms  four forms, one for each way to ask for work
Send the form six times from a terminal; the sixth gets 429:
  for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%%{http_code}\n' -c jar -b jar http://%[1]s/contact \
    -d name=Ada -d email=ada@example.org -d message=Hello; done
Ctrl-C stops it. -v shows what the limiters log; -attack plays the attack here.
`

// run serves until ctx ends and the requests under way have finished.
func run(ctx context.Context, o options) (err error) {
	secrets, err := loadSecrets(o)
	if err != nil {
		return err
	}
	counter, done, err := openCounter(o.counter, o.now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }() // after the last request
	handler, err := newInstances(o, secrets, counter)
	if err != nil {
		// The flags are checked, and all else of the configuration is constant.
		if o.policyFile != "" {
			return err // names the file
		}
		return fmt.Errorf("-secret-file %s: %w", o.secretFile, err)
	}
	if o.work == 0 {
		o.log.Info("-work 0: /feedback wants a round trip and no work; /contact and /signup keep the default, because a tally of one's own that costs nothing is no limit")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.addr)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler,
		// A client that dawdles holds a connection, not a worker, but not for
		// ever. MaxHeaderBytes stays at its default: the limiter looks at no
		// more than a few tokens of 512 bytes, however long the header is.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(o.log.Handler(), slog.LevelWarn),
	}
	server.RegisterOnShutdown(handler.home.close)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(o.stdout, welcome, listener.Addr())

	for open := true; open; {
		select {
		case err := <-served:
			return err
		case <-o.reload:
			handler.reload(o)
		case <-ctx.Done():
			open = false
		}
	}
	o.log.Info("shutting down; requests under way may finish", "within", patience)
	// Not ctx, which has ended.
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	defer handler.metrics.refusals.Flush() // after the last refusal
	if err := server.Shutdown(deadline); err != nil {
		return errors.Join(fmt.Errorf("shutdown: %w", err), server.Close())
	}
	return nil
}

// loadSecrets returns the secrets of the file that o names, or a fresh one.
func loadSecrets(o options) ([][]byte, error) {
	if o.secretFile == "" {
		return [][]byte{[]byte(rand.Text() + rand.Text())}, nil // of this process alone; a policy file may name others
	}
	content, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, err
	}
	secrets := policyfile.Secrets(content)
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s holds no secret", o.secretFile)
	}
	return secrets, nil
}
