// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/remote"
)

// serveCounter serves a counter to other processes of the demo, which have the same
// -secret-file.
func serveCounter(counter exact.Counter, addr string, secrets [][]byte, stdout io.Writer) (io.Closer, error) {
	owner, err := remote.Serve(counter, remote.Config{Secrets: secrets})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: owner, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "Counting for others on http://%s/\n", listener.Addr())
	return closers{func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := server.Shutdown(ctx)
		if why := <-served; !errors.Is(why, http.ErrServerClosed) {
			err = errors.Join(err, why)
		}
		return err
	}}, nil
}

// closers are closed one after the other.
type closers []func() error

// Close implements [io.Closer].
func (all closers) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
