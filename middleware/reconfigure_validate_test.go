// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Validate says what Reconfigure would say, in the same words, and changes nothing.
func TestValidateChangesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*middleware.Config)
		fields []string // that are wrong
	}{
		"nothing": {func(*middleware.Config) {}, nil},
		"what may change": {func(c *middleware.Config) {
			c.Limits, c.InsecureCookie = []middleware.Limit{{Quota: 1, Window: 60e9}}, true
		}, nil},
		"no memory":    {func(c *middleware.Config) { c.InsecureNoMemory, c.MaxClients = true, 7 }, nil},
		"a faulty one": {func(c *middleware.Config) { c.Limits, c.Secrets = nil, nil }, []string{"Limits", "Secrets"}},
		"another name": {func(c *middleware.Config) { c.Policy = "other" }, []string{"Policy"}},
		"another size": {func(c *middleware.Config) { c.MaxClients = 4096 }, []string{"MaxClients"}},
		"both":         {func(c *middleware.Config) { c.Limits, c.MaxClients = nil, 4096 }, []string{"Limits", "MaxClients"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contact(new(clock))
			h := newSite(t, cfg)
			spend(t, h, 2)
			changed := cfg
			row.change(&changed)
			err := h.m.Validate(changed)
			if row.fields == nil {
				require.NoError(t, err)
			} else {
				require.Equal(t, row.fields, problems(t, err))
			}
			resp := requireStatus(t, http.StatusOK, send(h))
			require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"), "two were spent before")
			again := h.m.Reconfigure(changed)
			require.Equal(t, err == nil, again == nil)
			if err != nil {
				require.EqualError(t, again, err.Error())
			}
		})
	}
}
