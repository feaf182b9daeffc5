// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeader(t *testing.T) {
	c := Challenge{Text: "AQ", Work: 262144, TTL: 10 * time.Second}
	require.Equal(t, "AQ;ttl=10;work=262144", c.Header())
}

func TestParseHeader(t *testing.T) {
	is := newIssuer(t, secretA)
	c, err := is.Issue(epoch, alice, DefaultWork)
	require.NoError(t, err)
	other, err := is.Issue(epoch, alice, 0)
	require.NoError(t, err)
	newer := "Ag" + c.Text[2:] // version 2
	for name, value := range map[string]string{
		"as rendered":               c.Header(),
		"bare":                      c.Text,
		"spaces and tabs":           " \t" + c.Text + " ; ttl=10 ;\twork=262144 ",
		"other order":               c.Text + ";work=262144;ttl=10",
		"unknown parameters":        c.Text + ";v=2;ttl=10;x;work=262144",
		"parameters without sense":  c.Text + ";ttl=;work=-1;;=",
		"lying parameters":          c.Text + ";ttl=9999;work=1",
		"first of two":              c.Header() + ", " + other.Header(),
		"behind a newer kind":       newer + ";ttl=10, " + c.Header(),
		"behind empty list members": " , ," + c.Header(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHeader(value)
			require.NoError(t, err)
			require.Equal(t, c, got)
		})
	}
	for name, value := range map[string]string{
		"empty":              "",
		"commas":             ",,,",
		"no challenge":       ";ttl=10",
		"two without comma":  c.Text + " " + c.Text,
		"quoted":             `"` + c.Text + `"`,
		"newer kind only":    newer,
		"line break":         c.Text[:10] + "\r\n" + c.Text[10:],
		"too long by spaces": c.Text + strings.Repeat(" ", maxField),
		"too long":           strings.Repeat("A", maxField+1),
		"a token":            "eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJjb250YWN0In0.c2ln",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHeader(value)
			require.ErrorIs(t, err, ErrMalformed)
			require.Zero(t, got)
		})
	}
	t.Run("as long as may be", func(t *testing.T) {
		got, err := ParseHeader(c.Text + strings.Repeat(" ", maxField-len(c.Text)))
		require.NoError(t, err)
		require.Equal(t, c, got)
	})
}
