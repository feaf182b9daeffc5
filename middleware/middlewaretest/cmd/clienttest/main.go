// SPDX-License-Identifier: Apache-2.0

// The command clienttest tells whether a client of a server limited by Tallystick does its part:
//
//	clienttest [-addr HOST:PORT] [-json] [COMMAND [ARGUMENT...]]
//
// It serves the cases of package clienttest. With a command it runs that, with the origin of
// the server in the environment as CLIENTTEST_URL, then prints the report, and exits with 1 if
// a case has failed or is missing. Without one it serves until it is interrupted: the report
// is at /report.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/tallystick/tallystick/internal/clienttest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "clienttest:", err)
		os.Exit(1)
	}
}

var errFound = errors.New("the client does not do its part")

// run is main, for tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("clienttest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:0", "`address` to serve on")
	asJSON := flags.Bool("json", false, "print the report as JSON")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: clienttest [flags] [command [argument...]]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	script, err := clienttest.New(nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: script, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	origin := "http://" + listener.Addr().String()

	if flags.NArg() == 0 {
		fmt.Fprintf(stdout, "%s/cases\n%s/report\n", origin, origin)
		<-ctx.Done()
		return nil
	}
	command := exec.CommandContext(ctx, flags.Arg(0), flags.Args()[1:]...)
	command.Env = append(os.Environ(), "CLIENTTEST_URL="+origin)
	command.Stdout, command.Stderr = stderr, stderr
	if err := command.Run(); err != nil {
		return err
	}
	report := script.Report()
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		_, err = io.WriteString(stdout, report.String())
	}
	if err == nil && !report.OK() {
		err = errFound
	}
	return err
}
