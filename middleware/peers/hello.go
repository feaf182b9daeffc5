// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// version is what this package speaks. A hello has one form in all versions, so that two that differ tell so.
const version = 1

const (
	magic     = "tallpeer"
	nonceAt   = len(magic) + 1 + 8 + 8 // after the version, the name and the fingerprint
	addressAt = nonceAt + 32 + 1       // after the nonce and the length of the address
	macLen    = sha256.Size            // of a hello

	// What keys are for, as in docs/wire.md.
	helloKey    = "tallystick/peers/hello"
	dialerKey   = "tallystick/peers/dialer/1"
	listenerKey = "tallystick/peers/listener/1"
	talliesKey  = "tallystick/peers/tallies/1" // and the fingerprint
)

// A hello is the first message of each end.
type hello struct {
	version     byte
	name        uint64 // of the process: random, one for each start
	fingerprint uint64 // of the key that names tallies
	address     string // of the process, as its list has it
}

var (
	errStranger  = errors.New("its hello is not signed by any of our Secrets")
	errMalformed = errors.New("it does not speak this protocol")
)

// A versionError says that the other end has another version of this package.
type versionError struct{ theirs byte }

func (e versionError) Error() string {
	return fmt.Sprintf("it speaks version %d, and this process %d", e.theirs, version)
}

// derive returns a key from a secret. It fails for no input that is ours.
func derive(secret, salt []byte, info string) []byte {
	key, err := hkdf.Key(sha256.New, secret, salt, info, sha256.Size)
	if err != nil {
		panic(err)
	}
	return key
}

func macOf(key []byte, texts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, text := range texts {
		h.Write(text)
	}
	return h.Sum(nil)
}

type nonce [32]byte

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// sign writes h. The listener's hello answers the dialer's, and signs both: so none answers twice, and none answers
// itself.
func (h hello) sign(secret, asked []byte, n nonce) []byte {
	b := append([]byte(magic), h.version)
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, h.name), h.fingerprint)
	b = append(b, n[:]...)
	address := h.address[:min(len(h.address), 255)]
	b = append(append(b, byte(len(address))), address...)
	return append(b, macOf(derive(secret, nil, helloKey), asked, b)...)
}

// readHello reads one hello. It believes nothing of it, and keeps at most 345 bytes.
func readHello(r io.Reader) ([]byte, error) {
	b := make([]byte, addressAt, addressAt+255+macLen)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	if string(b[:len(magic)]) != magic {
		return nil, errMalformed
	}
	b = b[:addressAt+int(b[addressAt-1])+macLen]
	_, err := io.ReadFull(r, b[addressAt:])
	return b, err
}

// verify returns what a hello says, and the secret that has signed it.
func verify(secrets [][]byte, asked, b []byte) (h hello, secret []byte, err error) {
	text := b[:len(b)-macLen]
	for _, one := range secrets {
		if hmac.Equal(macOf(derive(one, nil, helloKey), asked, text), b[len(text):]) {
			at := len(magic)
			h = hello{b[at], binary.BigEndian.Uint64(b[at+1:]), binary.BigEndian.Uint64(b[at+9:]), string(text[addressAt:])}
			if h.version != version {
				err = versionError{h.version}
			}
			return h, one, err
		}
	}
	return h, nil, errStranger
}

// A session holds what two hellos have agreed upon.
type session struct {
	theirs  hello
	in, out *seal
}

// greet says hello as the dialer.
func greet(conn io.ReadWriter, ours hello, secrets [][]byte) (*session, error) {
	asked := ours.sign(secrets[0], nil, newNonce())
	if _, err := conn.Write(asked); err != nil {
		return nil, err
	}
	var op *net.OpError
	answer, err := readHello(conn)
	switch {
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errMalformed):
		return nil, fmt.Errorf("what listens there is no peer, or only one end has TLS: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("it takes the connection and says no hello: %w", err)
	case errors.Is(err, io.EOF), errors.As(err, &op) && op.Op == "read": // a reset; each system has its own number for that
		return nil, fmt.Errorf("it hangs up at our hello, as one does that has other Secrets: %w", err)
	default:
		return nil, err
	}
	theirs, secret, err := verify(secrets[:1], asked, answer)
	if secret == nil {
		return nil, err
	}
	return agree(theirs, secret, asked, answer, true), err
}

// receive answers a hello as the listener. A stranger gets no answer; another version does, so that both ends know.
func receive(conn io.ReadWriter, ours hello, secrets [][]byte) (*session, error) {
	asked, err := readHello(conn)
	if err != nil {
		return nil, err
	}
	theirs, secret, err := verify(secrets, nil, asked)
	if secret == nil {
		return nil, err
	}
	answer := ours.sign(secret, asked, newNonce())
	if _, failed := conn.Write(answer); failed != nil {
		return nil, failed
	}
	return agree(theirs, secret, asked, answer, false), err
}

// agree derives a key for each direction from all that both have said.
func agree(theirs hello, secret, asked, answer []byte, dialer bool) *session {
	salt := sha256.Sum256(append(asked[:len(asked):len(asked)], answer...))
	dialed, answered := newSeal(derive(secret, salt[:], dialerKey)), newSeal(derive(secret, salt[:], listenerKey))
	if dialer {
		return &session{theirs, answered, dialed}
	}
	return &session{theirs, dialed, answered}
}
