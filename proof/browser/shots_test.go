// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

type look struct {
	name     string
	features []*emulation.MediaFeature
	width    int64
}

// looks are light and dark pages and forced colours, on the narrowest phone and on a desk.
func looks() (all []look) {
	for name, feature := range map[string]emulation.MediaFeature{
		"light":  {Name: "prefers-color-scheme", Value: "light"},
		"dark":   {Name: "prefers-color-scheme", Value: "dark"},
		"forced": {Name: "forced-colors", Value: "active"},
	} {
		for width, size := range map[string]int64{"phone": 320, "desk": 1000} {
			all = append(all, look{name + "-" + width, []*emulation.MediaFeature{&feature}, size})
		}
	}
	return all
}

// wear shows the page so.
func (b *tab) wear(l look) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: l.features})
	require.NoError(b.t, err)
	b.screen(l.width, 400)
}

// screen gives the page a screen of this size.
func (b *tab) screen(width, height int64) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	require.NoError(b.t, err)
}

// axe requires that axe-core finds nothing on the page.
func (b *tab) axe() {
	b.t.Helper()
	file, err := os.ReadFile("testdata/axe/node_modules/axe-core/axe.min.js")
	if err != nil {
		kit.Unable(b.t, "there is no axe-core; .ci/need installs it: %v", err)
	}
	b.do(chromedp.Evaluate[chromedp.Void](string(file) + "; undefined"))
	require.Empty(b.t, eval[[]string](b, `axe.run().then((found) => found.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html + n.failureSummary).join(" ")))`))
}

// TestNoSidewaysScroll: whatever it says, it stays within the narrowest phone, beside
// its sign, and the sign is there in forced colours too.
func TestNoSidewaysScroll(t *testing.T) {
	browser := launch(t)
	for _, end := range deadEnds {
		t.Run(end.name, func(t *testing.T) {
			s := newSite(t, end.change)
			b := open(t, browser, s.URL+"/"+end.page)
			end.meet(s, b)
			for _, l := range looks() {
				b.wear(l)
				require.LessOrEqual(t, eval[int64](b, `document.documentElement.scrollWidth`), l.width, l.name)
				require.Positive(t, eval[float64](b, element+`.firstChild.getBoundingClientRect().left - `+element+`.getBoundingClientRect().left - 20`), "beside the sign: %s", l.name)
				if strings.HasPrefix(l.name, "forced") {
					require.Equal(t, "none", eval[string](b, `getComputedStyle(`+element+`, "::before").forcedColorAdjust`), "or the sign is gone")
				}
			}
		})
	}
}

// TestNoSignWithoutScript: an undefined element shows what stands in it, and no sign.
func TestNoSignWithoutScript(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	b := open(t, browser, s.URL+"/elsewhere")
	b.do(chromedp.Navigate(s.URL + "/signup?csp=" + url.QueryEscape("default-src 'self'; script-src 'none'")))
	require.Equal(t, "none", eval[string](b, `getComputedStyle(`+element+`, "::before").content`))
	require.True(t, eval[bool](b, element+`.dataset.state === undefined`))
	b.visit(s.URL + "/signup")
	require.Equal(t, "none", eval[string](b, `getComputedStyle(`+element+`, "::before").content`), "nor while there is nothing to say")
	s.breakDown(http.StatusForbidden, "")
	b.reach("error")
	require.Equal(t, `""`, eval[string](b, `getComputedStyle(`+element+`, "::before").content`))
}
