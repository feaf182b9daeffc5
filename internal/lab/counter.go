// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"sync"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/remote"
)

// A counter is an exact counter that all instances share, served over HTTP by the lab.
type counter struct {
	url  string
	stop func()
}

func serveCounter(secret []byte) (*counter, error) {
	owner, err := remote.Serve(exact.NewMemory(0, nil), remote.Config{Secrets: [][]byte{secret}})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: owner}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // it ends by stop, and what it says then is nothing new
	}()
	return &counter{"http://" + l.Addr().String() + "/", sync.OnceFunc(func() {
		_ = server.Close()
		<-ended
	})}, nil
}
