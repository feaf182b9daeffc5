// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The world of the tests. Time is an argument everywhere, so it stands still.
var (
	epoch   = time.Unix(1_790_000_000, 0)
	alice   = Binding{Client: []byte{192, 0, 2, 1}, Route: "contact", Tier: "free"}
	secretA = bytes.Repeat([]byte("A7"), 16)
	secretB = bytes.Repeat([]byte("b9"), 20)
)

func newIssuer(t testing.TB, secrets ...[]byte) *Issuer {
	t.Helper()
	return kit.Must(New(Config{Secrets: secrets}))(t)
}

// nonce makes the nonces of a test reproducible.
func nonce(name string) [nonceLen]byte {
	sum := sha256.Sum256([]byte(name))
	return [nonceLen]byte(sum[:nonceLen])
}

// issued issues to alice at epoch.
func issued(t testing.TB, is *Issuer, work uint64) Challenge {
	t.Helper()
	return kit.Must(is.Issue(epoch, alice, work))(t)
}

// issueWith issues around a given nonce.
func issueWith(is *Issuer, at uint32, b Binding, work uint64, n [nonceLen]byte) Challenge {
	w := is.ring.get()
	defer is.ring.put(w)
	w.nonce = n
	return w.issue(at, b, work, is.longest)
}

// answersOf derives the answers instead of searching for them, for tests that
// need many or expensive ones.
func answersOf(t testing.TB, is *Issuer, challenge string) []uint32 {
	t.Helper()
	var h header
	w := is.ring.get()
	defer is.ring.put(w)
	raw := kit.Must(h.decode(&w.raw, challenge))(t)
	key := w.signer(h.kid, raw)
	require.NotNil(t, key)
	numbers := w.numbers(key, raw[:headerLen], h.span)
	return numbers[:h.k]
}

// proofOf writes the right proof of a challenge.
func proofOf(t testing.TB, is *Issuer, challenge string) string {
	t.Helper()
	return string(appendProof(nil, challenge, answersOf(t, is, challenge)))
}

// solved issues to alice at epoch and solves.
func solved(t testing.TB, is *Issuer, work uint64) string {
	t.Helper()
	return kit.Must(Solve(context.Background(), issued(t, is, work).Text, SolveOptions{MaxWork: MaxWork}))(t)
}

// seal signs a header of any content with the ring's key of that index: what a
// buggy or another version of the issuer might have sent.
func seal(is *Issuer, key int, h header) string {
	w := is.ring.get()
	defer is.ring.put(w)
	states := &w.keys[key]
	raw := h.append(nil)
	seed := sha256.Sum256(raw)
	numbers := w.numbers(states, raw, h.span)
	for i := range h.k {
		m := newMessage(&seed, uint32(i))
		sum := m.digest(numbers[i%puzzles])
		raw = append(raw, sum[:targetLen]...)
	}
	raw = append(raw, w.hmac(states.mac, raw)[:macLen]...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// headerOf reads back the header of a challenge.
func headerOf(t testing.TB, challenge string) header {
	t.Helper()
	var h header
	var raw [maxRaw]byte
	kit.Must(h.decode(&raw, challenge))(t)
	return h
}
