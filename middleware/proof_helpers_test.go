// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

func requireNoChallenge(t testing.TB, resp *http.Response) {
	t.Helper()
	require.Empty(t, resp.Header.Values(middleware.ChallengeHeader))
	require.NotContains(t, bodyOf(t, resp), "challenge")
}

// hashed is solve, slowly, and says how many hashes it took.
func hashed(t testing.TB, c pow.Challenge) (proof string, hashes int64) {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(c.Text)
	require.NoError(t, err)
	seed := sha256.Sum256(b[:38])
	var answers []string
	for i := range uint32(b[3]) {
		for n := uint32(0); ; n++ {
			hashes++
			sum := sha256.Sum256(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(seed[:], i), n))
			if string(sum[:6]) == string(b[38+6*i:44+6*i]) {
				answers = append(answers, strconv.FormatUint(uint64(n), 10))
				break
			}
		}
	}
	return c.Text + "~" + strings.Join(answers, "."), hashes
}

// peerIdentity is the identity of a client that send speaks for, if nothing else is said.
var peerIdentity = middleware.Address(netip.MustParseAddr("203.0.113.1"))

// priceAfter is what the next tally costs, and so what its challenge asks for, when so
// many were sold and none has leaked.
func priceAfter(sold, crowd int, work uint64) uint64 {
	doubled, rest := work<<(sold/crowd), uint64(sold%crowd)
	price := doubled + (doubled*rest+uint64(crowd)-1)/uint64(crowd)
	return (price + 3) &^ 3
}

// retryAfter returns the Retry-After of a response, which must have one.
func retryAfter(t testing.TB, resp *http.Response) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err, "Retry-After with %s", resp.Status)
	require.Positive(t, seconds)
	return time.Duration(seconds) * time.Second
}
