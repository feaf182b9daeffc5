// SPDX-License-Identifier: Apache-2.0

package players

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

// No forgery is the real one, and all can be sent.
func TestForgeries(t *testing.T) {
	real := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"p","sub":"AQIDBAUGBwg"}`)) + ".c2lnbmVk"
	list := Forgeries(real)
	require.Greater(t, len(list), 20)
	for _, f := range list {
		require.NotEqual(t, real, f)
		require.Less(t, len(f), 8000, "more than nginx takes")
	}
	require.Nil(t, Forgeries("none"))
}
