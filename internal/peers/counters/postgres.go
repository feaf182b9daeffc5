// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/tallystick/tallystick/middleware/exact/sql"
)

// postgresPrograms returns where the programs of PostgreSQL are, or "".
func postgresPrograms() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// openPostgres is package sql on a PostgreSQL of its own, as it is delivered: each charge is
// on the disk before it is answered. What its processes use is not told: it has one for
// each connection.
func openPostgres(string) (*Opened, error) {
	db, closing, err := startPostgres()
	if err != nil {
		return nil, err
	}
	store, err := sql.Open(db, sql.Config{Dialect: sql.PostgreSQL})
	if err == nil {
		err = store.CreateSchema(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return onStore(store, closing)
}

// openUpsert is what one writes by hand: one fixed window, one statement. No row comes back where the quota
// is used up.
func openUpsert(string) (*Opened, error) {
	db, closing, err := startPostgres()
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE counts (key TEXT PRIMARY KEY, win BIGINT NOT NULL, n BIGINT NOT NULL)`)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	stmt, err := db.Prepare(`INSERT INTO counts VALUES ($1, $2, 1) ON CONFLICT (key) DO UPDATE
		SET n = CASE WHEN counts.win = $2 THEN counts.n + 1 ELSE 1 END, win = $2
		WHERE counts.win <> $2 OR counts.n < $3 RETURNING n`)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return &Opened{Close: closing, Take: func(key string) (bool, error) {
		var n int64
		err := stmt.QueryRow(key, time.Now().Unix()/3600, int64(quota)).Scan(&n)
		if errors.Is(err, stdsql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	}}, nil
}

// startPostgres starts a server, and returns what closes it and its connections.
func startPostgres() (*stdsql.DB, func() error, error) {
	dir, err := os.MkdirTemp("", "peers-postgres-") // of its user, whom no other directory lets in
	if err != nil {
		return nil, nil, err
	}
	stop := func() error { return os.RemoveAll(dir) }
	as, err := unprivileged(dir)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(postgresPrograms(), name), args...)
		c.Dir, c.SysProcAttr, c.Env = dir, as, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		return c
	}
	if out, err := command("initdb", "-D", "data", "-U", "peers", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), stop())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if err := listener.Close(); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	server := command("postgres", "-D", "data", "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir)
	if err := server.Start(); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	closing := func() error {
		_ = server.Process.Signal(syscall.SIGINT) // at once, and in order
		return errors.Join(<-ended, stop())
	}
	db, err := stdsql.Open("pgx", "postgres://peers@127.0.0.1:"+port+"/postgres?sslmode=disable")
	if err != nil {
		return nil, nil, errors.Join(err, closing())
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	closeAll := func() error { return errors.Join(db.Close(), closing()) }
	for until := time.Now().Add(time.Minute); db.Ping() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			return nil, nil, errors.Join(errors.New("counters: PostgreSQL does not answer"), closeAll())
		}
	}
	return db, closeAll, nil
}
