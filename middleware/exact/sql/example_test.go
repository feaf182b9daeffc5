// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	stdsql "database/sql"
	"log"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/sql"
)

// A counter in a database that the program has anyhow, by connections of its own: a flood of calls
// does not take its pages' connections.
func ExampleOpen() {
	db, err := stdsql.Open("pgx", "postgres://counts@localhost/site") // import _ "github.com/jackc/pgx/v5/stdlib"
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := store.CreateSchema(ctx); err != nil {
		log.Print(err) // and not Fatal: the calls fail, and the policy says what then
		return
	}
	counter, err := cas.New(store, cas.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	_ = counter // middleware.Exact{Counter: counter, …}
}
