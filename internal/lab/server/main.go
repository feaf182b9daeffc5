// SPDX-License-Identifier: Apache-2.0

// Command server is one instance of the site that the lab attacks: routes with the middleware
// before them as users mount it, and a door at the back for the lab. The lab builds it
// anew, whole or with one defence broken, and starts it several times.
//
// Its clock stands where the lab has put it, so that no window ends by itself.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"

	"github.com/tallystick/tallystick/internal/lab/instance"
)

func main() {
	file := flag.String("config", "", "the file that says what to serve")
	flag.Parse()
	if err := run(*file); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves, and says where as a line of JSON on the standard output.
func run(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var cfg instance.Config
	if err := json.Unmarshal(text, &cfg); err != nil {
		return err
	}
	s, err := newSite(cfg)
	if err != nil {
		return err
	}
	front, err := net.Listen("tcp4", cfg.Listen.String())
	if err != nil {
		return err
	}
	back, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	where, err := json.Marshal(instance.Where{Front: addrOf(front), Back: addrOf(back)})
	if err != nil {
		return err
	}
	fmt.Println(string(where))
	failed := make(chan error, 2)
	go func() { failed <- http.Serve(back, s.back()) }()
	go func() { failed <- http.Serve(front, s.front()) }()
	go func() { // the lab holds the other end, and so this ends with it
		_, err := os.Stdin.Read(make([]byte, 1))
		failed <- errors.Join(errors.New("the lab is gone"), err)
	}()
	return <-failed
}

func addrOf(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }
