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
// and with a paid route, /api/quote, whose quotas are exact across instances. It
// wants "Authorization: Bearer" with demo-free, demo-researcher, demo-compliance,
// demo-vendor, or demo-vendor/ and one of the products maps, search and mail; the
// tiers are in tiers.json. Services of the site's own pass unlimited by the field
// Demo-Internal, if the environment variable DEMO_INTERNAL has their credential, of
// at least 32 characters. Its counter is a file that is removed at exit; with -counter
// file:PATH one that stays, with -counter memory none, and with -counter
// redis://HOST:PORT/DB a server that other processes can share. With -counter serve:HOST:PORT
// it lets others use its own, which have the same -secret-file and -counter http://HOST:PORT/.
//
//	go run ./demo
//	go run ./demo -attack
//	go run ./demo -attack -peers
//	go run ./demo -instances 1
//	go run ./demo -work 1048576 -crowd 1
//	go run ./demo -counter file:counts.db
//
// With -instances N, 3 if nothing is said, it is N servers behind a load balancer, in one process: N
// sets of middleware that share nothing but the secrets. Requests go to them in
// turn, and every response names its instance in the Demo-Instance field.
//
// With -secret-file it signs with the secrets of a file, so that tokens outlive
// the process and other processes accept them. Each line is one secret of at
// least 32 characters, for instance from "openssl rand -base64 32", and its
// characters are the secret: nothing is decoded. The first signs, all verify.
// Empty lines and lines that begin with "#" are skipped. A file that is not
// text, as from "openssl rand 32", is one secret.
//
// With -policy-file all policies come from a file such as policies.json, which says
// where the secrets are, too; see package policyfile. SIGHUP has the demo read that file and
// the secrets again, or the secrets in -secret-file. All instances go on with them and keep their
// counts; if anything is wrong nothing changes, and each problem is logged. A counter that is shared
// by -counter serve or http keeps the secrets of the start.
//
// -work sets the expected hashes of a proof, and -crowd the number of tallies
// that an address buys before the price doubles. Without JavaScript a
// form can be sent after a wait instead, a fifth as often. With -work 0 feedback
// wants a round trip alone; the other two keep the default, because a tally that
// costs nothing would be no limit. The endpoints of a policy are below
// /tally/<policy>/.
//
// With -bounds it prints what clients get at most under each policy with -instances instances, and exits.
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
	own, limiters := slog.LevelInfo, slog.LevelWarn
	if o.verbose {
		own, limiters = slog.LevelDebug, slog.LevelInfo
	}
	o.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: own}))
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
	flags.BoolVar(&o.verbose, "v", false, "log what the limiters have to say when they start")
	flags.BoolVar(&o.attack, "attack", false, "serve nothing: attack -instances for a minute, and print what each client got")
	flags.BoolVar(&o.peers, "peers", false, "let the instances of -attack hear each other")
	flags.StringVar(&o.picture, "picture", "", "serve nothing: write a picture of an attack on -instances to this `file`, as SVG")
	flags.IntVar(&o.instances, "instances", 3, "how many instances take the requests in turn, sharing only the secrets")
	flags.StringVar(&o.secretFile, "secret-file", "", "sign with the secrets in this `file`, one a line; without it, with a fresh random one")
	flags.StringVar(&o.policyFile, "policy-file", "", "take policies and secrets from this `file`, and read it again upon SIGHUP; without it, the program's own are used")
	flags.Int64Var(&o.work, "work", 1<<22, "what a proof costs, in expected `hashes`, by default enough to see the check at work; 0: none for /feedback, the library's default for the others")
	flags.StringVar(&o.counter, "counter", "", "what counts /api/quote: `memory`, file:PATH, redis://HOST:PORT/DB, serve:HOST:PORT for other processes too, or http://HOST:PORT/ of the one that does; without it, a file that is removed at exit")
	flags.Int64Var(&o.crowd, "crowd", 64, "how many honest `clients` an address may hide, which is the number of tallies that it buys before the price doubles")
	flags.BoolVar(&o.bounds, "bounds", false, "print what clients get at most by each policy, and end")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && (o.instances < 1 || o.instances > maxInstances) {
		err = fmt.Errorf("-instances is %d; it must be from 1 to %d", o.instances, maxInstances)
	}
	if err == nil && o.work != 0 && (o.work < pow.MinWork || o.work > maxWork) {
		err = fmt.Errorf("-work is %d; it must be from %d to %d expected hashes, or 0", o.work, pow.MinWork, maxWork)
	}
	if err == nil && (o.crowd < 1 || o.crowd > 255) {
		err = fmt.Errorf("-crowd is %d; it must be from 1 to 255", o.crowd)
	}
	if err == nil {
		err = checkCounter(o.counter)
	}
	if err == nil && o.peers && !o.attack {
		err = errors.New("-peers is for -attack; the home page has a switch for it")
	}
	if err == nil && o.secretFile != "" && o.policyFile != "" {
		err = errors.New("-secret-file and -policy-file: the policy file says where the secrets are")
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, "demo:", err)
	}
	return o, err
}
