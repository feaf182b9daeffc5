// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"cmp"
	"database/sql"
	"errors"
	"regexp"

	"github.com/tallystick/tallystick/storeless"
)

// A Config says which table is counted in.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Dialect is the engine's. Required.
	Dialect Dialect

	// Table is the name of the table. Permitted: up to 50 lower-case letters, digits and _,
	// not beginning with a digit; in PostgreSQL also after such a schema name and a dot.
	// Default: "tallystick".
	Table string
}

var tableName = regexp.MustCompile(`^(?:([a-z_][a-z0-9_]{0,49})\.)?([a-z_][a-z0-9_]{0,49})$`)

// Open returns a store in a table of a database. It makes no call: a table that is not there is
// an error of the first. db must be connected to the primary, not to a replica that may be
// behind, and stays the caller's to close.
func Open(db *sql.DB, cfg Config) (Store, error) {
	var errs []error
	problem := func(field, text string) {
		errs = append(errs, &storeless.ConfigError{Field: field, Problem: text})
	}
	if db == nil {
		problem("db", "is nil")
	}
	if cfg.Dialect != PostgreSQL && cfg.Dialect != SQLite {
		problem("Dialect", "must be PostgreSQL or SQLite")
	}
	cfg.Table = cmp.Or(cfg.Table, "tallystick")
	name := tableName.FindStringSubmatch(cfg.Table)
	switch {
	case name == nil:
		problem("Table", "must be up to 50 lower-case letters, digits and _, not beginning with a digit")
	case name[1] != "" && cfg.Dialect == SQLite:
		problem("Table", "must not name a schema in SQLite")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &store{db: db, statements: cfg.Dialect.statements(name[1], name[2])}, nil
}
