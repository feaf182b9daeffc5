// SPDX-License-Identifier: Apache-2.0

// Command demo is a site that shows what Tallystick does. Its home page plays attackers against real middleware, and
// draws what each of them gets below its bound. A form shows what becomes of each message: which instance
// answered, and what the visitor's token says. Below /forms are four forms, one for each way to ask for a proof of work:
//
//	/contact     5 per minute and 50 per day; work buys more (WhenExhausted)
//	/newsletter  10 per minute; never
//	/signup      3 per 10 minutes; work comes first (Newcomers)
//	/feedback    20 per hour; work for each (EveryRequest)
//
// The quotas of a paid route, /api/quote, are exact across instances. It
// wants "Authorization: Bearer" with demo-free, demo-researcher, demo-compliance,
// demo-vendor, or demo-vendor/ and one of the products maps, search and mail; the
// tiers are in tiers.json. Services of the site's own pass unlimited by the field
// Demo-Internal, if the environment variable DEMO_INTERNAL has their credential, of
// at least 32 characters.
//
//	go run ./demo
//	go run ./demo -attack
//	go run ./demo -attack -peers
//	go run ./demo -work 1048576 -crowd 1
//	go run ./demo -counter file:counts.db
//
// It is -instances servers behind a load balancer, in one process: each is a
// set of middleware of its own, and they share nothing but the secrets. Requests go to them in
// turn, and every response names its instance in the Demo-Instance field.
//
// The lines of a -secret-file are secrets of at least 32 characters, for instance from "openssl rand -base64 32".
// The first signs, all verify, so tokens outlive the process and other processes accept them.
// With -policy-file all policies come from a file such as policies.json, which says
// where the secrets are, too; see package policyfile. SIGHUP has the demo read that file and
// the secrets again. All instances go on with them and keep their
// counts; if anything is wrong nothing changes, and each problem is logged.
//
// Without JavaScript a form can be sent after a wait instead of work, a fifth as often. With -work 0 feedback
// wants a round trip alone; the other two keep the default, because a tally that
// costs nothing would be no limit.
//
// It speaks plain HTTP and keeps nothing of what it is sent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/pow"
)

// maxWork is the maximum of middleware: the price can double three times before it
// reaches the most that a challenge can ask for.
const maxWork = 1 << 29

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // parse has said why
	}
	o.stdout = os.Stdout
	limiters := slog.LevelWarn // and the demo itself has little to say
	if o.verbose {
		limiters = slog.LevelInfo
	}
	o.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	o.limits = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: limiters}))
	o.now = time.Now
	o.internal = os.Getenv("DEMO_INTERNAL")

	hangups := make(chan os.Signal, 1) // one that waits stands for all
	signal.Notify(hangups, syscall.SIGHUP)
	o.reload = hangups

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once shutdown has begun a second signal kills, as it would any program.
	context.AfterFunc(ctx, stop)
	do := run
	if o.attack || o.picture != "" {
		do = attack
	}
	if err := do(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// parse reads the command line. It explains its errors on stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "listen on this `address`; port 0 takes a free port")
	flags.BoolVar(&o.verbose, "v", false, "log what the limiters have to say when they start, such as what clients get at most")
	flags.BoolVar(&o.attack, "attack", false, "serve nothing: attack -instances for a minute, and print what each client got")
	flags.BoolVar(&o.peers, "peers", false, "let the instances of -attack hear each other")
	flags.StringVar(&o.picture, "picture", "", "serve nothing: write a picture of an attack on -instances to this `file`, as SVG")
	flags.IntVar(&o.instances, "instances", 3, "how many instances take the requests in turn, sharing only the secrets")
	flags.StringVar(&o.secretFile, "secret-file", "", "sign with the secrets in this `file`, one a line; without it, with a fresh random one")
	flags.StringVar(&o.policyFile, "policy-file", "", "take policies and secrets from this `file`, and read it again upon SIGHUP; without it, the program's own are used")
	flags.Int64Var(&o.work, "work", 1<<22, "what a proof costs, in expected `hashes`, by default enough to see the check at work; 0: none for /feedback, the library's default for the others")
	flags.StringVar(&o.counter, "counter", "", "what counts /api/quote: `memory`, file:PATH or redis://HOST:PORT/DB; without it, a file that is removed at exit")
	flags.Int64Var(&o.crowd, "crowd", 64, "how many honest `clients` an address may hide, which is the number of tallies that it buys before the price doubles")
	err := flags.Parse(args)
	must := func(right bool, format string, args ...any) {
		if err == nil && !right {
			err = fmt.Errorf(format, args...)
		}
	}
	must(flags.NArg() == 0, "unexpected argument %q", flags.Arg(0))
	must(o.instances >= 1 && o.instances <= maxInstances, "-instances is %d; it must be from 1 to %d", o.instances, maxInstances)
	must(o.work == 0 || o.work >= pow.MinWork && o.work <= maxWork, "-work is %d; it must be from %d to %d expected hashes, or 0", o.work, pow.MinWork, maxWork)
	must(o.crowd >= 1 && o.crowd <= 255, "-crowd is %d; it must be from 1 to 255", o.crowd)
	// Not the text itself: it may be a URL with a password, mistyped.
	must(counters.MatchString(o.counter), "-counter must be memory, file:PATH or redis://HOST:PORT/DB")
	must(o.attack || !o.peers, "-peers is for -attack; the home page has a switch for it")
	must(o.secretFile == "" || o.policyFile == "", "-secret-file and -policy-file: the policy file says where the secrets are")
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, "demo:", err)
	}
	return o, err
}
