// SPDX-License-Identifier: Apache-2.0

// Command counters is for operators of an exact counter: it says what a customer has used,
// forgets one, counts accounts, and copies them to another engine. A program of yours has its own
// policy in place of the one here, and the engines that it uses.
//
//	counters COUNTER look CUSTOMER
//	counters COUNTER reset CUSTOMER
//	counters COUNTER count
//	counters COUNTER copy COUNTER
//
// A counter is file:PATH, redis://HOST:PORT/DB or postgres://USER@HOST/DB.
package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/exact/sql"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// config is the configuration of the program whose counter this is: the policy's name and its limits.
func config(counter exact.Counter) middleware.Config {
	return middleware.Config{
		Policy: "api",
		Limits: []middleware.Limit{
			{Name: "minute", Quota: 60, Window: time.Minute},
			{Name: "day", Quota: 1000, Window: 24 * time.Hour},
		},
		Secrets: [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))},
		Exact:   &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: time.Second},
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	words := map[string]int{"look": 3, "reset": 3, "count": 2, "copy": 3}
	if len(args) < 2 || len(args) != words[args[1]] {
		return errUsage
	}
	counter, done, err := open(ctx, args[0])
	if err != nil {
		return err
	}
	defer done() //nolint:errcheck // nothing is left to be written
	switch args[1] {
	case "look":
		return look(ctx, counter, args[2], out)
	case "reset":
		limit, err := middleware.New(config(counter))
		if err != nil {
			return err
		}
		return limit.Reset(ctx, middleware.APIKey(args[2]))
	case "count":
		accounts := 0
		err := counter.Each(ctx, func(engine.Record) error { accounts++; return nil })
		fmt.Fprintln(out, accounts, "accounts")
		return err
	}
	to, done, err := open(ctx, args[2])
	if err != nil {
		return err
	}
	copied, kept, err := engine.Copy(ctx, to, counter)
	fmt.Fprintln(out, copied, "copied,", kept, "were there already")
	return errors.Join(err, done())
}

var errUsage = errors.New("usage: counters COUNTER look CUSTOMER | reset CUSTOMER | count | copy COUNTER")

// look says what a customer has used, and until when it is refused.
func look(ctx context.Context, counter exact.Counter, customer string, out io.Writer) error {
	limit, err := middleware.New(config(counter))
	if err != nil {
		return err
	}
	d, err := limit.Decide(ctx, middleware.Ask{Identity: middleware.APIKey(customer), DryRun: true})
	if err != nil {
		return err
	}
	if d.Degraded {
		return errors.New("the counter does not answer")
	}
	for _, l := range d.Limits() {
		fmt.Fprintf(out, "%s: %d of %d used\n", l.Name, l.Quota-l.Remaining, l.Quota)
	}
	if !d.Admitted {
		fmt.Fprintln(out, "refused for", d.RetryAfter)
	}
	return nil
}

// open opens a counter, and returns what closes it.
func open(ctx context.Context, spec string) (engine.Archive, func() error, error) {
	var c interface {
		engine.Archive
		io.Closer
	}
	var err error
	switch kind, rest, _ := strings.Cut(spec, ":"); kind {
	case "file":
		c, err = file.Open(rest, file.Config{})
	case "redis", "rediss":
		c, err = redis.Open(spec, redis.Config{})
	case "postgres":
		return openPostgres(ctx, spec)
	default:
		err = errors.New("a counter is file:PATH, redis://HOST:PORT/DB or postgres://USER@HOST/DB")
	}
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

func openPostgres(ctx context.Context, spec string) (c engine.Archive, done func() error, err error) {
	db, err := stdsql.Open("pgx", spec)
	if err != nil {
		return nil, nil, err
	}
	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
	if err == nil {
		err = store.CreateSchema(ctx)
	}
	if err == nil {
		c, err = cas.New(store, cas.Config{})
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return c, db.Close, nil
}
