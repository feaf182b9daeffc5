// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

const root = "github.com/tallystick/tallystick"

func billOf(t *testing.T, dir string) (*cdx.BOM, []byte) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, write(&out, dir, "v1.2.3"))
	bom := new(cdx.BOM)
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(out.Bytes()), cdx.BOMFileFormatJSON).Decode(bom))
	return bom, out.Bytes()
}

func named(bom *cdx.BOM) map[string]cdx.Component {
	all := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		all[c.Name] = c
	}
	return all
}

// What a user links is in it, with the hash that go.sum has; what tests need is not.
func TestRoot(t *testing.T) {
	bom, text := billOf(t, "../../..")
	require.Equal(t, "pkg:golang/"+root+"@v1.2.3", bom.Metadata.Component.PackageURL)
	all := named(bom)
	jwt := all["github.com/golang-jwt/jwt/v5"]
	require.Equal(t, "pkg:golang/github.com/golang-jwt/jwt/v5@"+jwt.Version, jwt.PackageURL)
	require.True(t, strings.HasPrefix((*jwt.Properties)[0].Value, "h1:"), "%v", jwt.Properties)
	require.NotContains(t, all, "github.com/stretchr/testify")
	require.Len(t, *(*bom.Dependencies)[0].Dependencies, len(all))

	_, again := billOf(t, "../../..")
	require.Equal(t, string(text), string(again), "one commit, the same bytes")
}

// A module beside it is released with it, under the same version.
func TestNested(t *testing.T) {
	bom, text := billOf(t, "../../../middleware/exact/file")
	require.Equal(t, "pkg:golang/"+root+"@v1.2.3", named(bom)[root].PackageURL)
	require.Contains(t, named(bom), "golang.org/x/sys")
	require.NotContains(t, string(text), "..", "a path of this machine")
}

func TestNoModule(t *testing.T) {
	require.Error(t, write(new(bytes.Buffer), t.TempDir(), "v1.2.3"))
}
