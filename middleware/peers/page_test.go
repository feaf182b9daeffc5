// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// docs/wire.md prints a hello, an answer and a frame as they are written here, and has each kind of frame.
func TestTheWireIsThatOfItsPage(t *testing.T) {
	blocks, tables, err := pages.Read("../../docs/wire.md")
	require.NoError(t, err)
	var said map[string]string
	for _, b := range blocks {
		if strings.Contains(b.Text, "\nhello ") {
			said = make(map[string]string)
			for line := range strings.Lines(b.Text) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				said[name] = strings.TrimSpace(value)
			}
		}
	}
	unhex := func(name string) []byte {
		return kit.Must(hex.DecodeString(said[name]))(t)
	}
	secret := unhex("secret")
	asked := unhex("hello")
	dialer, _, err := verify([][]byte{secret}, nil, asked)
	require.NoError(t, err)
	require.Equal(t, said["address"], dialer.address)
	require.Equal(t, said["hello"], hex.EncodeToString(dialer.sign(secret, nil, nonce(unhex("nonce")))))
	listener, _, err := verify([][]byte{secret}, asked, unhex("answers"))
	require.NoError(t, err)
	require.Equal(t, dialer.fingerprint, listener.fingerprint)
	s := agree(listener, secret, asked, unhex("answers"), true)
	require.Equal(t, said["frame"], hex.EncodeToString(s.out.append(nil, said["kind"][0], nil, unhex("content"))))

	var kinds []string
	for _, table := range tables {
		if strings.HasPrefix(table.Head, "| kind | when |") {
			for _, row := range table.Rows {
				kinds = append(kinds, row[0])
			}
		}
	}
	require.Equal(t, []string{"`s`", "`t`", "`a`", "`w`", "`c`", "`f`"}, kinds)
	for i, kind := range []byte{statusFrame, tellFrame, answerFrame, wantFrame, chunkFrame, farewellFrame} {
		require.Equal(t, kinds[i], "`"+string(kind)+"`")
	}
}
