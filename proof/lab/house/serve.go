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
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/middleware/peers"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

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
	if s.server.Shutdown(ctx) != nil { // the rest are slow readers
		err = s.server.Close()
	}
	_ = s.group.Close(ctx) // a peer that is not there has not heard all
	return errors.Join(err, s.counter.Close())
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
		m := set.Middleware(policy)
		s.mux.Handle("/"+policy, s.enter(m.Handler(s)))
		s.mux.Handle("/"+policy+"/tally/", s.enter(m.Endpoints()))
	}
	return nil
}

// A door is the lab's, at the back of an instance. What it does is called by net/rpc.
type door struct{ *Site }

// Open starts the instance.
func (s *door) Open(cfg Config, where *Where) (err error) {
	s.cfg = cfg
	s.now.Store(cfg.Now)
	if where.Peers, err = s.join(); err != nil { // first: it sets the resolver of the process
		return err
	}
	if s.counter, err = redis.Open(cfg.Redis, redis.Config{}); err != nil {
		return err
	}
	if err := s.mount(filepath.Join(cfg.Dir, Policies)); err != nil {
		return err
	}
	listens := net.ListenConfig{Control: sharing}
	l, err := listens.Listen(context.Background(), "tcp4", cfg.Listen.String())
	if err != nil {
		return err
	}
	where.Front = addrOf(l)
	s.server = &http.Server{Handler: s.mux, ErrorLog: log.New(s, "", 0)}
	go func() {
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return nil
}

// Reload has it read its policies again.
func (s *door) Reload(int, *int) error { return policyfile.Reload(s.set) }

// Cut cuts the wires to some addresses, and mends the others.
func (s *door) Cut(addresses []string, _ *int) error {
	s.wire.refuse(addresses)
	return nil
}

// Advance puts its clock forward, to a time.
func (s *door) Advance(now int64, _ *int) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.now.Store(now)
	return nil
}

// State says what it has seen.
func (s *door) State(whole bool, state *State) error {
	*state = s.look(whole)
	return nil
}

// drain is how long requests under way have, when a process is asked to end.
const drain = 10 * time.Second

// Serve is an instance as a process of its own, until ctx is done. The lab calls its door by the standard input and output, and it ends
// with the process that holds the other end of these.
func Serve(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser) error {
	s := &Site{mux: http.NewServeMux(), failed: make(chan error, 1), state: State{Took: map[int]int64{}}}
	calls, gone := rpc.NewServer(), make(chan struct{})
	if err := calls.RegisterName("Door", &door{s}); err != nil {
		return err
	}
	before := runtime.NumGoroutine() + 1 // the calls'
	codec := jsonrpc.NewServerCodec(pipes{stdin, stdout})
	if err := calls.ServeRequest(codec); err != nil { // the first is to open
		return err
	}
	go func() {
		defer close(gone)
		calls.ServeCodec(codec)
	}()
	select {
	case <-gone:
		return errors.New("the lab is gone")
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
