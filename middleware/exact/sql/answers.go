// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
)

// States of PostgreSQL: five characters, two for the class.
const (
	notSerialized  = "40001"
	deadlock       = "40P01"
	lockTimeout    = "55P03"
	diskFull       = "53100"
	tooManyClients = "53300"

	// A statement that a driver has prepared is not on the connection that a pooler gives it, or is
	// there before the driver has prepared it.
	preparedBefore = "42P05"
	notPrepared    = "26000"
)

// errPooled says what to do about those two.
var errPooled = errors.New("behind a pooler of transactions a driver must keep no prepared statements; pgx keeps none with default_query_exec_mode=exec in the connection string")

// refused are the classes of errors sent instead of running a statement: data, constraints,
// state and rights of a transaction, names, resources, limits, locks. Errors of connections,
// operators, the system and the server are left out: an ended connection, or a wait for a
// standby that is cut short, may come after the commit.
const refused = "22 23 25 28 42 3D 3F 53 54 55"

// classify tells the outcome of a statement. It asks a driver's methods, not its types, which
// would link all drivers: PostgreSQL's drivers have SQLState, SQLite's repeat SQLite's text.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var said interface{ SQLState() string }
	state := ""
	if errors.As(err, &said) {
		state = said.SQLState()
	}
	text := err.Error()
	switch {
	case state == notSerialized, state == deadlock, state == lockTimeout,
		state == "" && (strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked")):
		return cas.ErrChanged // it was rolled back, for others
	case state == diskFull, state == "" && strings.Contains(text, "database or disk is full"):
		return fmt.Errorf("%w: sql: %w", exact.ErrFull, err)
	case state == tooManyClients:
		return fmt.Errorf("%w: sql: %w", exact.ErrBusy, err)
	case state == preparedBefore, state == notPrepared:
		return fmt.Errorf("%w: sql: %w: %w", exact.ErrNotCounted, errPooled, err)
	case len(state) == 5 && strings.Contains(refused, state[:2]):
		return fmt.Errorf("%w: sql: %w", exact.ErrNotCounted, err)
	}
	return fmt.Errorf("sql: %w", err)
}
