// SPDX-License-Identifier: Apache-2.0

// Command server is one instance of the site that the lab attacks: routes with the middleware
// before them as users mount it, and a door at the back for the lab. The lab builds it
// anew, whole or with one defence broken, and starts it several times.
//
// Its clock stands where the lab has put it, so that no window ends by itself. As one of a fleet
// it serves what a file of policies says, by the machine's clock, also by HTTP/2.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

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
	where := instance.Where{Front: addrOf(front), Back: addrOf(back)}
	s.door = &url.URL{Scheme: "http", Host: where.Back.String()}
	server := &http.Server{Handler: s.front(), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	failed := make(chan error, 4)
	if f := cfg.Fleet; f != nil {
		safe, err := net.Listen("tcp4", f.Safe.String())
		if err != nil {
			return err
		}
		where.Safe = addrOf(safe)
		go func() {
			failed <- server.ServeTLS(safe, filepath.Join(f.Keys, "certificate.pem"), filepath.Join(f.Keys, "key.pem"))
		}()
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	line, err := json.Marshal(where)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	go func() { failed <- http.Serve(back, s.back()) }()
	go func() { failed <- server.Serve(front) }()
	go func() { // the lab holds the other end, and so this ends with it
		_, err := os.Stdin.Read(make([]byte, 1))
		failed <- errors.Join(errors.New("the lab is gone"), err)
	}()
	select {
	case err := <-failed:
		return err
	case <-asked:
	}
	ctx, stop := context.WithTimeout(context.Background(), drain)
	defer stop()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close() // the rest are slow readers
}

// drain is how long requests under way have, when the process is asked to end.
const drain = 10 * time.Second

func addrOf(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }
