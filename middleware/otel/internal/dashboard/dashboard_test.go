// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/otel/internal/dashboard"
	"github.com/tallystick/tallystick/proof/kit"
)

//go:generate go test -run TestDashboardIsGenerated -update
var update = flag.Bool("update", false, "write the dashboard")

const file = "../../dashboard/grafana.json"

func TestDashboardIsGenerated(t *testing.T) {
	want := kit.Must(dashboard.JSON())(t)
	if *update {
		require.NoError(t, os.WriteFile(file, want, 0o644))
	}
	got := kit.Must(os.ReadFile(file))(t)
	require.Equal(t, string(want), string(got), "GOWORK=off go generate ./internal/dashboard")
}

// What Grafana needs of a dashboard, and readers of its panels.
func TestDashboardIsSound(t *testing.T) {
	text := kit.Must(os.ReadFile(file))(t)
	var d struct {
		UID           string
		Title         string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type        string
			Title       string
			Description string
			GridPos     struct{ X, Y, W, H int }
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.UID)
	require.NotEmpty(t, d.Title)
	require.NotZero(t, d.SchemaVersion)
	ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], p.ID)
		require.False(t, titles[p.Title], p.Title)
		ids[p.ID], titles[p.Title] = true, true
		require.Positive(t, p.GridPos.W)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s lies on %s", p.Title, taken[at])
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			require.Regexp(t, `\?$`, p.Title, "a row is a question")
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		refs := map[string]bool{}
		for _, q := range p.Targets {
			require.False(t, refs[q.RefID])
			refs[q.RefID] = true
			require.NotEmpty(t, q.Expr)
			require.NotEmpty(t, q.LegendFormat)
		}
	}
	require.Greater(t, len(ids), 15)
}
