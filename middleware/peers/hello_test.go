// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	one = hello{version, 1, 10, "10.0.0.1:9000"}
	two = hello{version, 2, 10, "10.0.0.2:9000"}
)

func secretOf(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// shake has two ends greet each other.
func shake(t *testing.T, dialer, listener [][]byte, d, l hello) (dialed, received *session, dialErr, receiveErr error) {
	a, b := net.Pipe()
	for _, c := range []net.Conn{a, b} {
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = b.Close() }()
		received, receiveErr = receive(b, l, listener)
	}()
	dialed, dialErr = greet(a, d, dialer)
	_ = a.Close()
	<-done
	return dialed, received, dialErr, receiveErr
}

// While secrets are rotated, all that have one in common hear each other.
func TestSecretsAreRotated(t *testing.T) {
	old, fresh := secretOf(1), secretOf(2)
	steps := [][][]byte{{old}, {old, fresh}, {fresh, old}, {fresh}}
	for i, d := range steps {
		for j, l := range steps {
			dialed, received, dialErr, receiveErr := shake(t, d, l, one, two)
			known := slices.ContainsFunc(l, func(secret []byte) bool { return bytes.Equal(secret, d[0]) })
			require.True(t, known || i-j > 1 || j-i > 1, "a step is safe")
			if !known {
				require.ErrorIs(t, receiveErr, errStranger)
				require.ErrorContains(t, dialErr, "other Secrets")
				continue
			}
			require.NoError(t, dialErr)
			require.NoError(t, receiveErr)
			require.Equal(t, two, dialed.theirs)
			require.Equal(t, one, received.theirs)
			for _, way := range []struct{ out, in *seal }{{dialed.out, received.in}, {received.out, dialed.in}} {
				for range 3 {
					kind, content, err := way.in.read(bytes.NewReader(way.out.append(nil, 't', []byte("ab"), []byte("c"))), new([]byte))
					require.NoError(t, err)
					require.Equal(t, "tabc", string(kind)+string(content))
				}
			}
		}
	}
}

// An end that does not answer our hello as a peer does is not said to have other Secrets.
func TestTheReasonOfAGreeting(t *testing.T) {
	for reason, c := range map[string]struct {
		said  string
		stays bool
	}{
		"as one does that has other Secrets: EOF":                                           {"", false},
		"what listens there is no peer, or only one end has TLS: unexpected EOF":            {"\x15\x03\x03\x00\x02\x02\x32", false},
		"what listens there is no peer, or only one end has TLS: it does not speak this pr": {"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n", true},
		"it takes the connection and says no hello: read pipe: i/o timeout":                 {"SSH-2.0\r\n", true},
	} {
		here, there := net.Pipe()
		require.NoError(t, here.SetDeadline(time.Now().Add(100*time.Millisecond)))
		go func() {
			_, _ = io.CopyN(io.Discard, there, int64(len(one.sign(secrets[0], nil, nonce{}))))
			_, _ = io.WriteString(there, c.said)
			if !c.stays {
				_ = there.Close()
			}
		}()
		_, err := greet(here, one, secrets)
		require.ErrorContains(t, err, reason)
	}
}

// Two versions tell each other's.
func TestVersionsAreTold(t *testing.T) {
	next := two
	next.version = 7
	_, _, dialErr, receiveErr := shake(t, secrets, secrets, one, next)
	require.ErrorIs(t, dialErr, versionError{7})
	require.NoError(t, receiveErr, "it is the one that has another")
	_, _, dialErr, receiveErr = shake(t, secrets, secrets, next, one)
	require.ErrorIs(t, receiveErr, versionError{7})
	require.NoError(t, dialErr)
	require.EqualError(t, receiveErr, "it speaks version 7, and this process 1")
}

// No bit of a hello can be another; none is good for the other role, nor as the answer to another.
func TestHellosAreSigned(t *testing.T) {
	asked := one.sign(secrets[0], nil, nonce{1})
	answer := two.sign(secrets[0], asked, nonce{2})
	for i := range answer {
		for _, hello := range []struct{ asked, text []byte }{{nil, asked}, {asked, answer}} {
			forged := bytes.Clone(hello.text)
			forged[i] ^= 1
			_, secret, err := verify(secrets, hello.asked, forged)
			require.ErrorIs(t, err, errStranger)
			require.Nil(t, secret)
		}
	}
	for name, c := range map[string]struct{ asked, text []byte }{
		"reflected":               {asked, asked},
		"an answer asks":          {nil, answer},
		"the answer to another":   {one.sign(secrets[0], nil, nonce{3}), answer},
		"signed by another":       {asked, two.sign(secretOf(9), asked, nonce{2})},
		"the answer to an answer": {answer, answer},
	} {
		_, _, err := verify(secrets, c.asked, c.text)
		require.ErrorIs(t, err, errStranger, name)
	}
	long := one
	long.address = strings.Repeat("a", 300)
	h, _, err := verify(secrets, nil, long.sign(secrets[0], nil, nonce{}))
	require.NoError(t, err)
	require.Len(t, h.address, 255)
}

// What was recorded of one connection is worth nothing on another: both ends have new nonces.
func TestAReplayedHelloMakesNoFrame(t *testing.T) {
	asked := one.sign(secrets[0], nil, nonce{1})
	answer := two.sign(secrets[0], asked, nonce{2})
	first := agree(two, secrets[0], asked, answer, true).out.append(nil, tellFrame, nil, []byte("batch"))
	again := agree(one, secrets[0], asked, two.sign(secrets[0], asked, nonce{3}), false)
	_, _, err := again.in.read(bytes.NewReader(first), new([]byte))
	require.ErrorIs(t, err, errForged)
}

// FuzzReceive has a listener read what a stranger says.
func FuzzReceive(f *testing.F) {
	asked := one.sign(secrets[0], nil, nonce{1})
	f.Add(asked)
	f.Add(asked[:len(asked)-1])
	f.Add(append(asked[:addressAt-1:addressAt-1], 255))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"))
	f.Add(one.sign(secretOf(9), nil, nonce{}))
	f.Fuzz(func(t *testing.T, said []byte) {
		answered := new(bytes.Buffer)
		s, err := receive(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(said), answered}, two, secrets)
		if bytes.HasPrefix(said, asked) {
			require.NoError(t, err)
			require.Equal(t, one, s.theirs)
			return
		}
		require.Error(t, err)
		require.Nil(t, s)
		require.Zero(t, answered.Len(), "a stranger is told nothing")
	})
}

// FuzzFrame has an end read what an attacker on the wire has written after one good frame.
func FuzzFrame(f *testing.F) {
	key := secretOf(3)
	out := newSeal(key)
	good := out.append(nil, tellFrame, nil, []byte("batch"))
	next := out.append(nil, answerFrame, nil, nil)
	f.Add([]byte{})
	f.Add(next)
	f.Add(good)
	f.Add(next[:len(next)-1])
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Add(newSeal(key).append(nil, tellFrame, nil, []byte("batch")))
	f.Fuzz(func(t *testing.T, written []byte) {
		in, r, buf := newSeal(key), bytes.NewReader(append(bytes.Clone(good), written...)), []byte(nil)
		kind, content, err := in.read(r, &buf)
		require.NoError(t, err)
		require.Equal(t, "tbatch", string(kind)+string(content))
		kind, content, err = in.read(r, &buf)
		require.LessOrEqual(t, cap(buf), 2*mostLen)
		if bytes.HasPrefix(written, next) {
			require.NoError(t, err)
			require.Equal(t, byte(answerFrame), kind)
			require.Empty(t, content)
			return
		}
		require.Error(t, err)
	})
}

// Frames that are forged, cut, exchanged, repeated, left out or reflected end the connection.
func TestFramesAreSigned(t *testing.T) {
	asked := one.sign(secrets[0], nil, nonce{1})
	answer := two.sign(secrets[0], asked, nonce{2})
	var frames [][]byte
	dialer := agree(two, secrets[0], asked, answer, true)
	for _, batch := range []string{"one", "two", "three"} {
		frames = append(frames, dialer.out.append(nil, tellFrame, nil, []byte(batch)))
	}
	joined := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	changed := func(frame []byte, at int) []byte {
		frame = bytes.Clone(frame)
		frame[at] ^= 1
		return frame
	}
	read := func(s *session, text []byte) (n int, err error) {
		r, buf := bytes.NewReader(text), []byte(nil)
		for ; ; n++ {
			if _, _, err := s.in.read(r, &buf); err != nil {
				return n, err
			}
		}
	}
	listener := func() *session { return agree(one, secrets[0], asked, answer, false) }
	n, err := read(listener(), joined(frames...))
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, io.EOF)
	for name, c := range map[string]struct {
		text []byte
		n    int
		err  error
	}{
		"its content":   {joined(frames[0], changed(frames[1], headLen)), 1, errForged},
		"its kind":      {joined(frames[0], changed(frames[1], headLen-1)), 1, errForged},
		"its length":    {joined(frames[0], changed(frames[1], headLen-2), frames[2]), 1, errForged},
		"its signature": {joined(frames[0], changed(frames[1], len(frames[1])-1)), 1, errForged},
		"cut":           {joined(frames[0], frames[1][:len(frames[1])-1]), 1, io.ErrUnexpectedEOF},
		"in its head":   {joined(frames[0], frames[1][:3]), 1, io.ErrUnexpectedEOF},
		"exchanged":     {joined(frames[1], frames[0]), 0, errForged},
		"repeated":      {joined(frames[0], frames[0]), 1, errForged},
		"left out":      {joined(frames[0], frames[2]), 1, errForged},
		"huge at once":  {joined(binary.BigEndian.AppendUint32(nil, firstLen+1), make([]byte, 99)), 0, errLong},
		"huge":          {joined(frames[0], binary.BigEndian.AppendUint32(nil, mostLen+1), make([]byte, 99)), 1, errLong},
	} {
		n, err := read(listener(), c.text)
		require.Equal(t, c.n, n, name)
		require.ErrorIs(t, err, c.err, name)
	}
	n, err = read(agree(two, secrets[0], asked, answer, true), frames[0])
	require.Zero(t, n, "reflected")
	require.ErrorIs(t, err, errForged)
}
