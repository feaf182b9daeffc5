// SPDX-License-Identifier: Apache-2.0

// Command server is a site as a process of its own. The lab builds it anew, whole or with one defence broken,
// and starts it several times.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/site"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// drain is how long requests under way have, when the process is asked to end.
const drain = 10 * time.Second

// run serves as the first line of the standard input says, and says where as a line of JSON on the standard output.
func run() error {
	var cfg instance.Config
	if err := json.NewDecoder(os.Stdin).Decode(&cfg); err != nil {
		return err
	}
	s, where, err := site.Start(cfg, nil)
	if err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	line, err := json.Marshal(where)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	gone := make(chan error, 1)
	go func() { // the lab holds the other end, and so this ends with it
		_, err := os.Stdin.Read(make([]byte, 1))
		gone <- errors.Join(errors.New("the lab is gone"), err)
	}()
	select {
	case err := <-gone:
		return err
	case err := <-s.Failed():
		return err
	case <-asked:
	}
	ctx, stop := context.WithTimeout(context.Background(), drain)
	defer stop()
	return s.Stop(ctx)
}
