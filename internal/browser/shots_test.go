package browser

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// TestScreenshots writes pictures of the element in each state, and of the demo, to
// the directory TALLYSTICK_SHOTS, for people to look at. Without it there is
// nothing to do.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("TALLYSTICK_SHOTS")
	if dir == "" {
		t.Skip("TALLYSTICK_SHOTS is not set: nobody wants pictures")
	}
	browser := launch(t)
	program := buildDemo(t)
	for _, scheme := range []string{"light", "dark"} {
		for name, width := range map[string]int64{"phone": 390, "desk": 1000} {
			shoot := func(b *tab, what string) {
				picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, what+"-"+scheme+"-"+name+".png"), picture, 0o600))
			}
			prepare := func(b *tab) {
				_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
				})
				require.NoError(t, err)
				_, err = chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: name == "phone"})
				require.NoError(t, err)
			}
			d := startDemo(t, program)
			b := open(t, browser, d.URL)
			prepare(b)
			b.wait(`document.querySelector("[data-tally=feedback]").textContent`)
			shoot(b, "demo")

			s := newSite(t, func(c *middleware.Config) { c.Challenge.Work = 1 << 23 })
			b = open(t, browser, s.URL+"/signup")
			prepare(b)
			shoot(b, "idle")
			b.click("#send")
			b.wait(element + `.querySelector("progress").value > 0.02 && !` + element + `.querySelector("progress").hidden`)
			shoot(b, "working")
			s.breakDown(http.StatusBadGateway, "")
			b.visit(s.URL + "/signup")
			b.click("#send")
			b.wait(element + `.state === "error"`)
			shoot(b, "error")
		}
	}
}
