// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"context"
	stdsql "database/sql"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/nats"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/middleware/exact/sql"
)

// What several processes can share, without a server that must be installed. Their servers
// run in this process: what those cost is in the client's processor time.

// openRemote is a counter in memory, by HTTP over loopback.
func openRemote(string) (*Opened, error) {
	cfg := remote.Config{Secrets: [][]byte{[]byte("only as long as it has to be, 32")}}
	owner, err := remote.Serve(exact.NewMemory(0, nil), cfg)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Handler: owner, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	closing := func() error {
		err := s.Close()
		if why := <-ended; !errors.Is(why, http.ErrServerClosed) {
			err = errors.Join(err, why)
		}
		return err
	}
	c, err := remote.Open([]string{"http://" + listener.Addr().String() + "/"}, cfg)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return ours(c, func() error { return errors.Join(c.Close(), closing()) })
}

// openSQL is package sql on SQLite: with its accounts, and for several processes.
func openSQL(dir string) (*Opened, error) {
	db, err := stdsql.Open("sqlite", "file:"+filepath.Join(dir, "counts")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	store, err := sql.Open(db, sql.Config{Dialect: sql.SQLite})
	if err == nil {
		err = store.CreateSchema(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return onStore(store, db.Close)
}

// openNATS is a bucket of JetStream in a file, of one replica, that the disk has when the
// server finds the time: every two minutes.
func openNATS(dir string) (*Opened, error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	stop := func() error { s.Shutdown(); s.WaitForShutdown(); return nil }
	if !s.ReadyForConnections(time.Minute) {
		return nil, errors.Join(errors.New("counters: nats-server does not answer"), stop())
	}
	conn, err := natsgo.Connect(s.ClientURL())
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	closing := func() error { conn.Close(); return stop() }
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	store, err := nats.Open(context.Background(), js, nats.Config{})
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return onStore(store, closing)
}

// onStore is package cas on a store.
func onStore(store cas.Store, closing func() error) (*Opened, error) {
	c, err := cas.New(store, cas.Config{})
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	return ours(c, closing)
}
