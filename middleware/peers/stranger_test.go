// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/proof/kit"
)

const evil = "10.6.6.6:6000"

// knock connects as a stranger.
func (w *world) knock(address string) net.Conn {
	conn, err := w.dial(evil)(context.Background(), "tcp", address)
	require.NoError(w.t, err)
	return conn
}

// lasts returns how long a connection stays open, and what it says.
func lasts(t *testing.T, conn net.Conn) (time.Duration, []byte) {
	began := time.Now()
	said := kit.Must(io.ReadAll(conn))(t)
	return time.Since(began), said
}

// A stranger holds its connection for two seconds, whatever it sends, and hears nothing.
func TestAStrangerHearsNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		all := w.fleet(list...)
		for name, c := range map[string]struct {
			say   func(net.Conn)
			most  time.Duration
			alarm bool
		}{
			"nothing": {func(net.Conn) {}, greeting, false},
			"a byte a second": {func(conn net.Conn) {
				go func() {
					for _, b := range one.sign(secrets[0], nil, nonce{}) {
						if _, err := conn.Write([]byte{b}); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
			}, greeting, false},
			"HTTP": {func(conn net.Conn) {
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html, image/png, */*\r\n\r\n")
			}, 0, true},
			"another secret": {func(conn net.Conn) { _, _ = conn.Write(one.sign(secretOf(9), nil, nonce{})) }, 0, true},
		} {
			all[0].alarms.rang = map[about]ringing{}
			all[0].log.Reset()
			before := all[0].Stats().Strangers
			conn := w.knock(list[0])
			c.say(conn)
			took, said := lasts(t, conn)
			synctest.Wait()
			require.LessOrEqual(t, took, c.most+5*time.Millisecond, name)
			require.Empty(t, said, name)
			require.Equal(t, c.alarm, bytes.Contains([]byte(all[0].log.String()), []byte("code=peers-stranger from=10.6.6.6 ")), name)
			require.Equal(t, before+1, all[0].Stats().Strangers)
		}
		require.Len(t, all[0].Stats().Heard, 1)
		closeAll(all...)
	})
}

// What is recorded of a connection, and sent again, makes a hello and no more.
func TestARecordingIsWorthNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		record := new(text)
		tapped := func(c *Config) {
			dial := c.Dial
			c.Members = list
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return tap{conn, record}, err
			}
		}
		a := w.start(list[0], members(list[0]))
		b := w.start(list[1], tapped)
		b.add(5)
		time.Sleep(time.Second)
		require.Equal(t, 5, a.sum())
		recorded := bytes.Clone(record.Bytes())
		w.kill(b)
		a.log.Reset()
		for _, at := range []string{list[0], list[0]} {
			conn := w.knock(at)
			go func() { _, _ = conn.Write(recorded) }()
			_, said := lasts(t, conn)
			require.Len(t, said, addressAt+len(list[0])+macLen, "a hello")
		}
		conn := w.knock(list[0])
		_, _ = conn.Write(recorded[:addressAt+len(list[1])+macLen])
		took, said := lasts(t, conn)
		require.LessOrEqual(t, took, greeting+5*time.Millisecond)
		require.NotEmpty(t, said)
		require.Equal(t, 5, a.sum())
		require.NotContains(t, a.log.String(), "peers-back")
		require.Equal(t, list[1:], a.Stats().Silent)
		closeAll(a)
	})
}

// A tap writes down what one end says.
type tap struct {
	net.Conn
	record io.Writer
}

func (c tap) Write(p []byte) (int, error) {
	_, _ = c.record.Write(p)
	return c.Conn.Write(p)
}

// A byte that is changed on the wire ends the connection, which is made anew. The log tells.
func TestAChangeOnTheWire(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		var changes, after atomic.Int64
		a := w.start(list[0], members(list[:1]...))
		b := w.start(list[1], func(c *Config) {
			dial := c.Dial
			c.Members = list
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return &noise{Conn: conn, changes: &changes, at: after.Add(61)}, err
			}
		})
		for range 400 {
			b.add(1)
			time.Sleep(11 * time.Millisecond)
		}
		require.Greater(t, changes.Load(), int64(4))
		require.Contains(t, a.log.String(), "code=peers-malformed member=10.0.0.2:9000 error=")
		after.Store(1 << 40)
		until(t, func() bool { return a.sum() == 400 })
		closeAll(a, b)
	})
}

// A noise changes one byte of what its end says.
type noise struct {
	net.Conn
	changes *atomic.Int64
	at      int64
}

func (c *noise) Write(p []byte) (int, error) {
	if i := c.at; i < int64(len(p)) && i >= 0 {
		p = bytes.Clone(p)
		p[i] ^= 1
		c.changes.Add(1)
	}
	c.at -= int64(len(p))
	return c.Conn.Write(p)
}

// Ten thousand connections a second hold no more than 256 at a time, and no peer is kept out.
func TestStrangersKeepNobodyOut(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(3)
		all := w.fleet(list[:2]...)
		idle := runtime.NumGoroutine()
		flood, stop := context.WithCancel(t.Context())
		var flooding sync.WaitGroup
		for range 10 {
			flooding.Go(func() {
				for flood.Err() == nil {
					conn := w.knock(list[0])
					go func() { _, _ = io.Copy(io.Discard, conn) }()
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		held := 0
		for range 4 {
			newcomer := w.start(list[2], members(list...))
			require.Len(t, newcomer.Stats().Heard, 2)
			all[1].add(1)
			time.Sleep(20 * time.Millisecond)
			require.Equal(t, all[1].sum(), all[0].sum())
			require.Equal(t, all[1].sum(), newcomer.sum())
			held = max(held, runtime.NumGoroutine()-idle)
			wires := newcomer.wires()
			time.Sleep(200 * time.Millisecond)
			require.True(t, maps.Equal(wires, newcomer.wires()), "a stranger takes no place of a peer")
			closeAll(newcomer)
		}
		require.Less(t, held, 6*strangers+1000, "one for each here, and those of the network of the test")
		stop()
		flooding.Wait()
		time.Sleep(2 * greeting)
		require.Greater(t, all[0].Stats().Strangers, uint64(5_000))
		require.NotContains(t, all[0].log.String(), "peers-late")
		closeAll(all...)
	})
}

// wires are the connections that a process has, by its peers.
func (g *Group) wires() map[uint64]*wire {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[uint64]*wire{}
	for name, p := range g.peers {
		all[name] = p.wire
	}
	return all
}

// enter connects as a member that has the secret and does not play by the rules.
func (w *world) enter(address string, name uint64) (net.Conn, *session) {
	conn := w.knock(address)
	h := hello{version, name, 0, evil}
	s, err := greet(conn, h, secrets)
	require.NoError(w.t, err)
	return conn, s
}

func status(now time.Time, digest, era uint64, ready byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))
	return append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, digest), era), ready)
}

// aChunk is a chunk of records.
func aChunk() []byte {
	r := gossip.New(gossip.Config{Name: 5})
	r.Add(time.Now(), counted(), 1, 1)
	chunk, _ := r.Chunk(time.Now(), 0)
	return chunk
}

// What a member may not send ends its connection, and says so. Nothing grows, and the others are heard all the time.
func TestAHostileMember(t *testing.T) {
	for name, frames := range map[string]func(s *session) []byte{
		"an unknown kind":           func(s *session) []byte { return s.out.append(nil, '?', nil, nil) },
		"an answer to nothing":      func(s *session) []byte { return s.out.append(nil, answerFrame, nil, nil) },
		"a chunk that is not asked": func(s *session) []byte { return s.out.append(nil, chunkFrame, make([]byte, 8), aChunk()) },
		"a short status":            func(s *session) []byte { return s.out.append(nil, statusFrame, nil, make([]byte, 24)) },
		"a short want":              func(s *session) []byte { return s.out.append(nil, wantFrame, nil, make([]byte, 3)) },
		"a batch of noise":          func(s *session) []byte { return s.out.append(nil, tellFrame, nil, []byte("\x01noise")) },
		"a batch of the future":     func(s *session) []byte { return s.out.append(nil, tellFrame, nil, []byte("\x09")) },
		"no frame": func(s *session) []byte {
			return append(s.out.append(nil, statusFrame, nil, status(time.Now(), 0, 1, 0)), make([]byte, 30)...)
		},
		"a huge frame": func(s *session) []byte {
			return append(binary.BigEndian.AppendUint32(s.out.append(nil, statusFrame, nil, status(time.Now(), 0, 1, 0)), 1<<31), tellFrame)
		},
	} {
		kit.RunBubble(t, name, func(t *testing.T) {
			w, list := newWorld(t), addresses(2)
			all := w.fleet(list...)
			conn, s := w.enter(list[0], 666)
			go func() { _, _ = conn.Write(frames(s)) }()
			_, _ = lasts(t, conn)
			synctest.Wait()
			require.Contains(t, all[0].log.String(), `code=peers-malformed member=`+evil+` error=`, name)
			all[1].add(1)
			time.Sleep(20 * time.Millisecond)
			require.Equal(t, 1, all[0].sum())
			closeAll(all...)
		})
	}
}

// Records that are asked for when a connection breaks are asked for once on the next, though the peer has begun anew there.
func TestRecordsAreAskedForOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(1)
		m := w.start(list[0], members(list...))
		var conn net.Conn
		for era := range uint64(3) {
			if conn != nil {
				require.NoError(t, conn.Close())
			}
			c, s := w.enter(list[0], 9)
			conn = c
			said := s.out.append(nil, statusFrame, nil, status(time.Now(), 0, 0, 1))
			go func() { _, _ = c.Write(s.out.append(said, statusFrame, nil, status(time.Now(), 0, 7+era/2, 1))) }()
			var wants atomic.Int64
			go func() {
				for kind, _, err := s.in.read(c, new([]byte)); err == nil; kind, _, err = s.in.read(c, new([]byte)) {
					if kind == wantFrame {
						wants.Add(1)
					}
				}
			}()
			time.Sleep(100 * time.Millisecond)
			require.EqualValues(t, 1, wants.Load(), "%d", era)
		}
		closeAll(m)
	})
}

// More processes than there is room for are turned away, and the log says so. The others are heard all the time.
func TestMoreProcessesThanThereIsRoomFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		all := w.fleet(list...)
		for name := range uint64(maxMembers + 6) {
			conn, s := w.enter(list[0], 1000+name)
			_, err := conn.Write(s.out.append(nil, statusFrame, nil, status(time.Now(), 0, 1, 0)))
			require.NoError(t, err)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			synctest.Wait()
		}
		require.Contains(t, all[0].log.String(), "code=peers-many member="+evil)
		require.Len(t, all[0].Stats().Heard, maxMembers-1)
		all[1].add(1)
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, 1, all[0].sum())
		closeAll(all...)
	})
}

// A member that asks for records and does not read them loses its connection before they fill the memory.
func TestAMemberThatDoesNotRead(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(2)
		all := w.fleet(list...)
		conn, s := w.enter(list[0], 666)
		_, err := conn.Write(s.out.append(nil, statusFrame, nil, status(time.Now(), 0, 1, 0)))
		require.NoError(t, err)
		synctest.Wait()
		most := 0
		for range 600 {
			var wants []byte
			for range 100 {
				wants = s.out.append(wants, wantFrame, nil, make([]byte, 4))
			}
			if _, err = conn.Write(wants); err != nil {
				break
			}
			all[0].mu.Lock()
			if p := all[0].peers[666]; p != nil && p.wire != nil {
				p.wire.mu.Lock()
				most = max(most, len(p.wire.queue))
				p.wire.mu.Unlock()
			}
			all[0].mu.Unlock()
		}
		require.Error(t, err)
		require.LessOrEqual(t, most, mostQueued+mostLen)
		require.Len(t, all[0].Stats().Heard, 1)
		closeAll(all...)
	})
}

// A clock that is ahead, and a list that differs for a minute, are told of the member that has them.
func TestMembersThatDiffer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, list := newWorld(t), addresses(4)
		a := w.start(list[0], members(list[:3]...))
		ahead := w.start(list[1], members(list[:3]...), func(c *Config) { c.Now = func() time.Time { return time.Now().Add(7 * time.Second) } })
		other := w.start(list[2], members(list...))
		rotated := w.start(list[3], func(c *Config) {
			c.Find = func(context.Context) ([]string, error) { return list[:3], nil }
			c.Secrets = [][]byte{secretOf(8), secrets[0]}
		})
		require.Len(t, a.Stats().Heard, 2)
		require.NotContains(t, rotated.Stats().Heard, list[0], "it does not know the secret")
		time.Sleep(2 * time.Second)
		require.Contains(t, a.log.String(), "code=peers-clock member=10.0.0.2:9000 ahead=\"7 s\" ")
		require.NotContains(t, ahead.log.String(), "peers-clock", "its own is told by the others")
		require.NotContains(t, a.log.String(), "peers-lists-differ", "a deploy may take a minute")
		require.Contains(t, other.log.String(), "code=peers-secrets-differ member=10.0.0.4:9000 ", "it has greeted that, which knows our secret")
		require.Contains(t, a.log.String(), "code=peers-stranger from=10.0.0.4 ")
		time.Sleep(time.Minute)
		require.Contains(t, a.log.String(), "code=peers-lists-differ member=10.0.0.3:9000 ")
		require.Contains(t, other.log.String(), "code=peers-lists-differ member=10.0.0.1:9000 ")
		require.Contains(t, rotated.log.String(), "code=peers-not-listed ")
		closeAll(a, ahead, other, rotated)
	})
}
