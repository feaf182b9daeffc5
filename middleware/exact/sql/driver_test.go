// SPDX-License-Identifier: Apache-2.0

package sql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// A tap is a driver between a store and its own: it counts statements, and does to answers what
// a network does.
type tap struct {
	real driver.Driver
	name string

	loads, swaps atomic.Int64
	lose         atomic.Bool // the answer of the next swap
	broken       atomic.Bool // likewise, by the error that has the statement run again
}

// open opens a database of any driver through a tap.
func (p *tap) open(driverName, name string) (*sql.DB, error) {
	db, err := sql.Open(driverName, name)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	p.real, p.name = db.Driver(), name
	return sql.OpenDB(p), nil
}

// Driver implements [driver.Connector].
func (p *tap) Driver() driver.Driver { return p.real }

// Connect implements [driver.Connector].
func (p *tap) Connect(context.Context) (driver.Conn, error) {
	c, err := p.real.Open(p.name)
	if err != nil {
		return nil, err
	}
	return &tapped{c, p}, nil
}

type tapped struct {
	driver.Conn
	tap *tap
}

func (c *tapped) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.tap.loads.Add(1)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c *tapped) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.tap.swaps.Add(1)
	done, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	switch {
	case err == nil && c.tap.lose.CompareAndSwap(true, false):
		return nil, errors.New("the connection was cut")
	case err == nil && c.tap.broken.CompareAndSwap(true, false):
		return nil, driver.ErrBadConn
	}
	return done, err
}

func (c *tapped) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}
