// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// A Config says how a counter counts. Its zero value is good.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Prefix begins the name of every key. Default: "tallystick:". It must hold no
	// braces: a cluster makes hash tags of them.
	Prefix string

	// DangerouslyAllowEviction counts on a server that evicts keys when its memory is
	// full. An account that is evicted has its quota back.
	DangerouslyAllowEviction bool

	// Logger receives a line if the server is away when the counter is opened, and at most one a
	// minute for each of: a server whose clock was wrong, one that begins to evict keys, one that
	// does not say whether it would, and an account that cannot be read.
	// Default: slog.Default().
	Logger *slog.Logger
}

func (cfg *Config) check() error {
	if strings.ContainsAny(cfg.Prefix, "{}") {
		return &storeless.ConfigError{Field: "Prefix", Problem: "must hold no braces: a cluster makes hash tags of them"}
	}
	return nil
}

// counter implements [engine.ArchiveCloser] on Redis.
type counter struct {
	exact.Counter // which merges calls to the engine
	engine        *batcher
}

// Open returns a counter on the server of a URL: redis://user:password@host:port/db, rediss:// with
// TLS, and the other forms of [rueidis.ParseURL]. With ?ca=<file> a certificate of that PEM file,
// such as a private CA's, must have signed the server's; the file is read now. Open begins to
// connect and does not wait; each call after a failure tries again. A server that is down when a
// program starts is a line in the log, and an outage like any other.
//
// Each scans all keys of the database, other programs' too, and keeps the names of all accounts meanwhile,
// as two nodes of a cluster may name the same one. Close closes the connections; calls after it fail with
// [ErrStopped].
func Open(url string, cfg Config) (engine.ArchiveCloser, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		// Not the error: it may repeat the URL with its password.
		err = &storeless.ConfigError{Field: "url", Problem: "must look like redis://user:password@host:port/0, or rediss:// for TLS"}
		return nil, errors.Join(err, cfg.check())
	}
	if err := trust(url, option.TLSConfig); err != nil {
		return nil, errors.Join(err, cfg.check())
	}
	// DisableRetry stops the repeating of reads, which cost a deadline too. A
	// client without a cache asks servers and proxies nothing that they might not
	// know.
	option.DisableRetry, option.DisableCache = true, true
	// Without it, a lone call that meets its deadline closes the connection that all
	// others are on: a slow answer would become an outage.
	option.AlwaysPipelining = true
	// A server that hangs is soon given up, so that calls do not pile up.
	option.Dialer.Timeout, option.ConnWriteTimeout = time.Second, time.Second
	var c *counter
	option.Dialer.ControlContext = func(ctx context.Context, network, address string, raw syscall.RawConn) error {
		return c.engine.connection.connects(ctx, network, address, raw)
	}
	c, err = open(func() (rueidis.Client, error) { return rueidis.NewClient(option) }, cfg)
	if err != nil {
		return nil, err
	}
	c.engine.alone = true
	c.engine.connection.ahead()
	return c, nil
}

// New returns a counter that uses a client. The caller closes the client.
func New(client rueidis.Client, cfg Config) (engine.ArchiveCloser, error) {
	if client == nil {
		return nil, errors.Join(&storeless.ConfigError{Field: "client", Problem: "is nil"}, cfg.check())
	}
	c, err := open(func() (rueidis.Client, error) { return borrowed{client}, nil }, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// borrowed is a client that its owner closes.
type borrowed struct{ rueidis.Client }

// Close implements [rueidis.Client].
func (borrowed) Close() {}

func open(dial func() (rueidis.Client, error), cfg Config) (*counter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "tallystick:")
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	told := &alarms{log: cfg.Logger}
	e := &batcher{
		prefix:     cfg.Prefix,
		alarms:     told,
		connection: connection{dial: dial, watch: watch{allowed: cfg.DangerouslyAllowEviction, alarms: told, every: watchEvery}},
	}
	for i := range e.nodes {
		e.nodes[i].out = make(chan struct{}, maxOut)
	}
	return &counter{engine.Merge(e), e}, nil
}

// Close closes the connections that Open made. Calls after it fail with
// [ErrStopped].
func (c *counter) Close() error {
	c.engine.connection.close()
	return nil
}

// Part implements [engine.Partitioned]: the node of a cluster that has the account.
func (c *counter) Part(call exact.Call) int {
	if c.engine.layout.nodeOf.Load() == nil || call.Policy == nil {
		return 0
	}
	return c.engine.layout.part(c.engine.tag(call.Policy, call.Key))
}
