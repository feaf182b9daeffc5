package middleware

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func ticketSecret(name string) []byte {
	sum := sha256.Sum256([]byte("tallystick test secret " + name))
	return sum[:]
}

var (
	ticketOpens = time.Unix(20_000*86_400+5, 0)
	ticketWho   = []byte("a\xcb\x00\x71\x01") // 203.0.113.1
)

// The vector was computed by hashlib, hmac and base64 of Python.
const ticketVector = "RwAAAZJU05OIYIxMSZMZG8IH-hsx9lDWPyvZo1gJvWQh"

func TestTicketVector(t *testing.T) {
	keys, err := newTicketKeys("contact", [][]byte{ticketSecret("a")})
	require.NoError(t, err)
	require.Equal(t, ticketVector, keys.issue(ticketOpens, ticketWho))
	opens, ok := keys.verify(ticketVector, ticketWho)
	require.True(t, ok)
	require.True(t, opens.Equal(ticketOpens))
}

func TestTicketsOfOthers(t *testing.T) {
	ring := func(policy string, names ...string) ticketKeys {
		var secrets [][]byte
		for _, name := range names {
			secrets = append(secrets, ticketSecret(name))
		}
		keys, err := newTicketKeys(policy, secrets)
		require.NoError(t, err)
		return keys
	}
	verifies := func(keys ticketKeys, text string, who []byte) bool {
		_, ok := keys.verify(text, who)
		return ok
	}
	ticket := ring("contact", "a").issue(ticketOpens, ticketWho)
	require.True(t, verifies(ring("contact", "b", "a"), ticket, ticketWho), "an older secret")
	require.True(t, verifies(ring("contact", "a", "b"), ticket, ticketWho))
	require.False(t, verifies(ring("contact", "b"), ticket, ticketWho), "another secret")
	require.False(t, verifies(ring("contac", "a"), ticket, ticketWho), "another policy")
	for _, who := range []string{"", "a", "a\xcb\x00\x71\x02", "a\xcb\x00\x71\x01\x00", "p\xcb\x00\x71\x01", "wa\xcb\x00\x71\x01"} {
		require.False(t, verifies(ring("contact", "a"), ticket, []byte(who)), "%q", who)
	}
	t.Run("two secrets with one kid", func(t *testing.T) {
		keys := ring("contact", "a", "b")
		keys[0].kid = keys[1].kid
		for i := range keys {
			require.True(t, verifies(keys, keys[i:].issue(ticketOpens, ticketWho), ticketWho))
		}
	})
}

// FuzzTicket: a ticket has one spelling, and nothing else is one.
func FuzzTicket(f *testing.F) {
	keys, err := newTicketKeys("contact", [][]byte{ticketSecret("b"), ticketSecret("a")})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Replace(text, "TICKET", ticketVector, 1)
		_, ok := keys.verify(text, ticketWho)
		require.Equal(t, text == ticketVector, ok)
	})
}
