// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// upsert is the whole of the work; it changes no row where the quota is used up.
const upsert = `INSERT INTO counts VALUES (?1, ?2, 1) ON CONFLICT (key) DO UPDATE
	SET n = CASE WHEN win = ?2 THEN n + 1 ELSE 1 END, win = ?2 WHERE win <> ?2 OR n < ?3`

// openSQLite is WAL with synchronous=FULL: each commit is on disk, as in the others.
func openSQLite(dir string) (*sql.DB, *sql.Stmt, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "counts")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only wait for its lock
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS counts (key TEXT PRIMARY KEY, win INTEGER NOT NULL, n INTEGER NOT NULL) WITHOUT ROWID`)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	stmt, err := db.Prepare(upsert)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, stmt, nil
}

func countRow(stmt *sql.Stmt, key string) (bool, error) {
	r, err := stmt.Exec(key, time.Now().Unix()/3600, quota)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// openSQLiteFull has a transaction for each call.
func openSQLiteFull(dir string) (*Opened, error) {
	db, stmt, err := openSQLite(dir)
	if err != nil {
		return nil, err
	}
	return &Opened{Close: db.Close, Take: func(key string) (bool, error) { return countRow(stmt, key) }}, nil
}

// openSQLiteGrouped has one goroutine that writes, and a transaction for all calls that
// wait for it.
func openSQLiteGrouped(dir string) (*Opened, error) {
	db, stmt, err := openSQLite(dir)
	if err != nil {
		return nil, err
	}
	g := &group{commit: func(jobs []*job) (err error) {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		stmt := tx.Stmt(stmt)
		for _, j := range jobs {
			if j.passed, err = countRow(stmt, j.key); err != nil {
				return err
			}
		}
		return tx.Commit()
	}}
	return &Opened{Close: db.Close, Take: g.take}, nil
}
