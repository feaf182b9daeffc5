package middleware

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
)

//go:embed tally.js
var tallyJS string

//go:embed tally.css
var tallyCSS string

// An asset is a file for browsers.
type asset struct {
	name, extension string
	contentType     string
	body            string
	hash            string // of the body, as part of a URL
}

func newAsset(name, extension, contentType, body string) *asset {
	sum := sha256.Sum256([]byte(body))
	return &asset{name: name, extension: extension, contentType: contentType, body: body, hash: hex.EncodeToString(sum[:8])}
}

// file is the name that changes with the content.
func (a *asset) file() string { return a.name + "." + a.hash + a.extension }

// assets are the files for browsers, as served: the sources, byte for byte, each
// under a plain name and under one that changes with the content. Nothing is
// minified: compression takes most of what a minifier would, and what was tested, and
// can be read, is what runs.
//
// Only the script differs between its two names, in one word. Under the plain one it
// imports the plain solver, so that a copy of the files works wherever it lies. Under
// the other it never changes, and so may import only what never changes.
type assets struct{ script, plainScript, solver, style *asset }

// importSolver is the end of a line of the script, and is in it once.
const importSolver = ` from "./solver.js";`

func newAssets() *assets {
	const javascript, css = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
	solver := newAsset("solver", ".js", javascript, pow.SolverJS())
	pinned := strings.Replace(tallyJS, importSolver, ` from "./`+solver.file()+`";`, 1)
	return &assets{
		script:      newAsset("tally", ".js", javascript, pinned),
		plainScript: newAsset("tally", ".js", javascript, tallyJS),
		solver:      solver,
		style:       newAsset("tally", ".css", css, tallyCSS),
	}
}

// find returns the asset of a file name, plain or with a hash, and whether the
// hash is the asset's. One that is not is of another version: while instances of
// both serve, their pages get the script all the same, if not the very same.
func (all *assets) find(file string) (a *asset, exact bool) {
	for _, a := range []*asset{all.script, all.solver, all.style} {
		hash, ok := strings.CutSuffix(file, a.extension)
		if ok {
			hash, ok = strings.CutPrefix(hash, a.name)
		}
		switch {
		case !ok:
		case hash == "" && a == all.script:
			return all.plainScript, false
		case hash == "":
			return a, false
		case len(hash) == 1+len(a.hash) && hash[0] == '.' && strings.Trim(hash[1:], "0123456789abcdef") == "":
			return a, hash[1:] == a.hash
		}
	}
	return nil, false
}

// serve answers a GET or HEAD, with 304 where the client has the same already.
func (a *asset) serve(w http.ResponseWriter, r *http.Request, exact bool) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Etag", `"`+a.hash+`"`)
	if exact {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	// A worker lives under the policy of its own response, not of the page: the
	// solver needs nothing. And a page that isolates itself starts only workers
	// that do.
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(a.body))
}

// serveAsset answers a file below the path.
func (c *challenger) serveAsset(w http.ResponseWriter, r *http.Request) {
	file, ok := strings.CutPrefix(r.URL.Path, c.path)
	if a, exact := c.assets.find(file); ok && a != nil {
		if methodAllowed(w, r, http.MethodGet) {
			a.serve(w, r, exact)
		}
		return
	}
	http.NotFound(w, r)
}

// ScriptURL returns the URL of the script for browsers, to be named by pages:
//
//	<link rel="stylesheet" href="{{.StyleURL}}">
//	<script type="module" src="{{.ScriptURL}}"></script>
//
// It changes with the script's content, and the response may be cached for ever;
// tally.js beside it is the same under a name that never changes, and imports the
// solver under such a name too. It is "" without
// Challenge.Path. The files are served by [Middleware.Endpoints]: plain JavaScript
// without WebAssembly, blob: URLs, inline code or styles, which needs no more than
// Content-Security-Policy: default-src 'self'. If worker-src does not allow it, the
// work is done on the page's own thread, in slices too short to be felt. What the script
// offers is in the package documentation.
func (m *Middleware) ScriptURL() string { return m.loaded().scriptURL() }

// StyleURL returns the URL of the style sheet for the element. It changes with the
// content, like [Middleware.ScriptURL].
func (m *Middleware) StyleURL() string { return m.loaded().styleURL() }

func (e *engine) scriptURL() string {
	return e.assetURL(func(a *assets) *asset { return a.script })
}

func (e *engine) styleURL() string {
	return e.assetURL(func(a *assets) *asset { return a.style })
}

func (e *engine) assetURL(which func(*assets) *asset) string {
	if e.challenge == nil || e.challenge.assets == nil {
		return ""
	}
	return e.challenge.path + which(e.challenge.assets).file()
}
