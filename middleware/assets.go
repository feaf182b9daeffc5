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

// assets are the files for browsers, as served.
type assets struct{ script, solver, style *asset }

func newAssets() *assets {
	solver := newAsset("solver", ".js", "text/javascript; charset=utf-8", minify(pow.SolverJS(), tightScript))
	// A script that never changes may import only what never changes.
	script := strings.Replace(tallyJS, `"./solver.js"`, `"./`+solver.file()+`"`, 1)
	return &assets{
		script: newAsset("tally", ".js", solver.contentType, minify(script, tightScript)),
		solver: solver,
		style:  newAsset("tally", ".css", "text/css; charset=utf-8", minify(tallyCSS, tightStyle)),
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
