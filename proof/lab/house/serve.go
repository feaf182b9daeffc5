// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

// newSite starts one.
func newSite(cfg Config) (*Site, Where, error) {
	s := &Site{
		cfg: cfg, mux: http.NewServeMux(), failed: make(chan error, 4),
		state: State{Took: map[int]int64{}},
	}
	s.now.Store(cfg.Now)
	where, err := s.start(cfg)
	if err != nil {
		return nil, where, errors.Join(err, s.Stop(context.Background()))
	}
	return s, where, nil
}

func (s *Site) start(cfg Config) (where Where, err error) {
	if where.Peers, err = s.join(); err != nil { // first: it sets the resolver of the process
		return where, err
	}
	if s.counter, err = redis.Open(cfg.Redis, redis.Config{}); err != nil {
		return where, err
	}
	if err := s.mount(filepath.Join(cfg.Dir, Policies)); err != nil {
		return where, err
	}
	server := &http.Server{Handler: s.mux, Protocols: new(http.Protocols), ErrorLog: log.New(s, "", 0)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	s.servers = []*http.Server{server, {Handler: s.back()}}
	where.Front, where.Back = cfg.Listen, netip.MustParseAddrPort("127.0.0.1:0")
	listens := net.ListenConfig{Control: sharing}
	for i, at := range []*netip.AddrPort{&where.Front, &where.Back} {
		l, err := listens.Listen(context.Background(), "tcp4", at.String())
		if err != nil {
			return where, err
		}
		*at = addrOf(l)
		go func() {
			if err := s.servers[i].Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- err
			}
		}()
	}
	return where, nil
}

// join has an instance hear its peers. It has another address each time that it starts, as in a cluster, and asks DNS for the others.
func (s *Site) join() (at netip.AddrPort, err error) {
	listener, err := net.Listen("tcp4", s.cfg.Pod.String())
	if err != nil {
		return at, err
	}
	at = addrOf(listener)
	s.wire.open = map[string][]net.Conn{}
	said, err := os.OpenFile(filepath.Join(s.cfg.Dir, at.String()+peersLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return at, err
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", s.cfg.Resolver)
	}}
	s.group, err = peers.Open(peers.Config{
		DNS: fmt.Sprintf("peers.lab.:%d", at.Port()), Listener: listener, Self: at.String(), Secrets: [][]byte{s.cfg.Secret},
		Dial: s.wire.dial, Now: s.pace, Logger: slog.New(slog.NewJSONHandler(said, nil)),
	})
	return at, err
}

// Stop ends it: requests under way have until ctx is done.
func (s *Site) Stop(ctx context.Context) (err error) {
	for _, server := range s.servers {
		if e := server.Shutdown(ctx); e != nil { // the rest are slow readers
			err = errors.Join(err, server.Close())
		}
	}
	if s.group != nil {
		_ = s.group.Close(ctx) // a peer that is not there has not heard all
	}
	if s.counter != nil {
		err = errors.Join(err, s.counter.Close())
	}
	return err
}

// mount mounts the policies of a file: /<policy> is limited, and /<policy>/tally/ sells.
func (s *Site) mount(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var names struct{ Policies map[string]json.RawMessage }
	if err := json.Unmarshal(text, &names); err != nil {
		return err
	}
	program := policyfile.Program{Policies: map[string]middleware.Config{}, Counters: map[string]exact.Counter{Shared: s.counter}, Logger: slog.New(slog.DiscardHandler)}
	for policy := range names.Policies {
		c := middleware.Config{PageHandler: keptform.Handler{}, OnDecision: s.decided, Logger: program.Logger, Now: s.clock}
		if strings.HasPrefix(policy, Hears) {
			c.Peers = s.group
		}
		program.Policies[policy] = c
	}
	set, err := policyfile.Open(file, program)
	if err != nil {
		return err
	}
	s.set = set
	for policy := range names.Policies {
		handler, plain := s.handler(policy)
		m := set.Middleware(policy)
		handler = m.Handler(handler)
		if !plain {
			handler = s.enter(handler)
		}
		s.mux.Handle("/"+policy, handler)
		s.mux.Handle("/"+policy+"/tally/", s.enter(m.Endpoints()))
	}
	return nil
}

// back is what the lab sees.
func (s *Site) back() http.Handler {
	mux := http.NewServeMux()
	does := func(what string, do func(r *http.Request) error) {
		mux.HandleFunc("POST /"+what, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})
	}
	does("reload", func(*http.Request) error { return policyfile.Reload(s.set) })
	does("cut", func(r *http.Request) error { s.wire.refuse(strings.Fields(r.FormValue("addresses"))); return nil })
	does("clock", func(r *http.Request) error {
		now, err := strconv.ParseInt(r.FormValue("now"), 10, 64)
		if err == nil {
			s.gate.Lock()
			defer s.gate.Unlock()
			s.now.Store(now)
		}
		return err
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(s.look(r.FormValue("whole") != ""))
	})
	return mux
}

// drain is how long requests under way have, when a process is asked to end.
const drain = 10 * time.Second

// Serve is an instance as a process of its own, until ctx is done. It serves as a line of its standard input says, says where as a line of
// JSON on the standard output, and ends with the process that holds the other end of the input.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var cfg Config
	if err := json.NewDecoder(stdin).Decode(&cfg); err != nil {
		return err
	}
	gone := make(chan error, 1)
	go func() {
		_, err := stdin.Read(make([]byte, 1))
		gone <- fmt.Errorf("the lab is gone: %w", errors.Join(err, io.EOF))
	}()
	before := runtime.NumGoroutine()
	s, where, err := newSite(cfg)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(where); err != nil {
		return err
	}
	select {
	case err := <-gone:
		return err
	case err := <-s.failed:
		return err
	case <-ctx.Done():
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer stop()
	return errors.Join(s.Stop(ctx), left(before, time.Minute))
}

// left waits for goroutines that are about to end, and says which others there are.
func left(before int, patience time.Duration) error {
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			var all strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
			return fmt.Errorf("%d goroutines are left, of %d before: %s", runtime.NumGoroutine(), before, all.String())
		}
	}
	return nil
}
