// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// strict is the policy that everything must run under.
const strict = "default-src 'self'; report-uri /csp"

// A post is a form as its handler got it.
type post struct {
	path   string
	values url.Values
	files  map[string]string // name: hash
	own    bool
}

// carried is what a request brought by field.
type carried struct{ token, proof string }

// A site has a form for each mode, and notes what is sent to it.
type site struct {
	*httptest.Server
	t      *testing.T
	limits map[string]*middleware.Middleware
	mux    *http.ServeMux

	mu      sync.Mutex
	posts   []post
	sent    []carried // to the API
	reports []string
	broken  int    // what the endpoints answer, if not 0
	after   string // and their Retry-After

	redeeming func() // is called before a proof arrives; nil: nothing
}

// All sites share this clock. It stands until a test moves it: no window ends and no ticket opens while a busy
// machine is late. Half of an hour is over: where one begins, a quota that is used up comes back in more than two hours,
// and the page says hours where else it says minutes.
var clock = halfPast()

func halfPast() *middlewaretest.Clock {
	c := middlewaretest.NewClock()
	c.Advance(30 * time.Minute)
	return c
}

// opensRooms moves the clock until a ticket for the waiting room opens.
func opensRooms() { clock.Advance(5 * time.Second) }

// work is cheap: most tests are about what happens, not how long it takes.
const work = 1 << 14

// newLimit returns a limiter of a number of requests an hour, as changed.
func newLimit(t *testing.T, policy string, quota int64, change ...func(*middleware.Config)) *middleware.Middleware {
	t.Helper()
	cfg := middleware.Config{
		Policy:  policy,
		Limits:  []middleware.Limit{{Quota: quota, Window: time.Hour}},
		Secrets: [][]byte{[]byte(strings.Repeat("s", 32))},
		Now:     clock.Now,
	}
	for _, c := range change {
		if c != nil {
			c(&cfg)
		}
	}
	return kit.Must(middleware.New(cfg))(t)
}

// byField has a policy carry tokens in fields alone.
func byField(c *middleware.Config) { c.TokenTransport = middleware.HeaderOnly }

// newSite returns a site whose limiters are changed.
func newSite(t *testing.T, change ...func(*middleware.Config)) *site {
	t.Helper()
	s := &site{t: t, limits: map[string]*middleware.Middleware{}}
	mux := http.NewServeMux()
	for policy, mode := range map[string]middleware.Mode{
		"signup": middleware.Newcomers, "contact": middleware.WhenExhausted, "feedback": middleware.EveryRequest,
	} {
		quota := int64(2)
		if mode == middleware.EveryRequest {
			quota = 20
		}
		limit := newLimit(t, policy, quota, append([]func(*middleware.Config){func(c *middleware.Config) {
			c.Challenge = &middleware.Challenge{Mode: mode, Work: work, Path: "/tally/" + policy + "/"}
		}}, change...)...)
		s.limits[policy] = limit
		mux.Handle("GET /"+policy, s.page(policy, limit))
		mux.Handle("POST /"+policy, limit.Handler(http.HandlerFunc(s.receive)))
		mux.Handle("/tally/"+policy+"/", s.breakable(limit.Endpoints()))
	}
	s.api(mux, change)
	mux.HandleFunc("POST /csp", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports = append(s.reports, string(body))
	})
	mux.Handle("GET /watch.js", static("javascript", watch))
	mux.Handle("GET /elsewhere", static("html", "<!doctype html><title>elsewhere</title><p>elsewhere"))
	s.mux = mux
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		csp := strict
		if c := r.URL.Query().Get("csp"); c != "" {
			csp = c
		}
		w.Header().Set("Content-Security-Policy", csp)
		if c := r.URL.Query().Get("proxy"); c != "" {
			w = &policing{w, c}
		}
		if r.URL.Query().Has("isolated") {
			w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
			w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// static serves one text of a kind, such as html.
func static(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/"+kind+"; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}

// policing adds a policy to responses, as a proxy does.
type policing struct {
	http.ResponseWriter
	policy string
}

func (p *policing) WriteHeader(code int) {
	p.Header().Add("Content-Security-Policy", p.policy)
	p.ResponseWriter.WriteHeader(code)
}

// api adds a resource for scripts of other origins.
func (s *site) api(mux *http.ServeMux, change []func(*middleware.Config)) {
	limit := newLimit(s.t, "api", 2, append([]func(*middleware.Config){byField, func(c *middleware.Config) {
		c.Challenge = &middleware.Challenge{Work: work, Path: "/tally/api/"}
	}}, change...)...)
	s.limits["api"] = limit
	mux.Handle("/tally/api/", limit.Endpoints())
	handler := limit.Handler(http.HandlerFunc(s.receive))
	mux.HandleFunc("/api", func(w http.ResponseWriter, r *http.Request) {
		if permit(w, r) {
			return
		}
		s.mu.Lock()
		s.sent = append(s.sent, carried{strings.Join(r.Header.Values(middleware.TokenHeader), ","), r.Header.Get(middleware.ProofHeader)})
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	})
}

// hasTime has the solver of a page take a challenge for one that lives a thousand times as long. Work that takes a while
// is otherwise, rightly, too much for a device that others keep busy as well.
func (s *site) hasTime(policy string) {
	served := httptest.NewRecorder()
	s.limits["signup"].Endpoints().ServeHTTP(served, httptest.NewRequest(http.MethodGet, "/tally/signup/solver.js", nil))
	ttl := regexp.MustCompile(`\b1e3(\*\w+\.view\.getUint16\(8\))`)
	require.Len(s.t, ttl.FindAllString(served.Body.String(), -1), 1)
	solver := ttl.ReplaceAllString(served.Body.String(), "1e6$1")
	s.mux.Handle("GET /tally/"+policy+"/{pin}/solver.js", static("javascript", solver))
}

// watch notes what a test wants to know of a page.
const watch = `
window.seen = [];
window.long = [];
addEventListener("tally-state", (e) => seen.push(e.detail.state));
addEventListener("pageshow", (e) => { window.persisted = e.persisted; });
new PerformanceObserver((list) => list.getEntries().forEach((e) => long.push(Math.round(e.duration))))
	.observe({ type: "longtask", buffered: true });
`

var pages = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Query.Get "lang"}}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{{.Policy}}</title>

<link rel="stylesheet" href="{{.Limit.StyleURL}}">
<script src="/watch.js"></script>
<script type="module" src="{{.Limit.ScriptURL}}"></script>
<form aria-label="Message" method="post" action="/{{.Policy}}" {{with .Query.Get "target"}}target="{{.}}"{{end}} {{with .Query.Get "enctype"}}enctype="{{.}}"{{end}}>
<p><label>Message <input name="message" value="hello"></label>
{{with .Query.Get "file"}}<p><label>File <input type="file" name="file"></label>{{end}}
{{with .Query.Get "shadow"}}<input type="hidden" name="submit" value="1"><input type="hidden" name="requestSubmit" value="2"><input type="hidden" name="action" value="3"><input type="hidden" name="method" value="4"><input type="hidden" name="target" value="5">{{end}}
<tally-check endpoint="/tally/{{.Policy}}/" {{with .Query.Get "auto"}}auto="{{.}}"{{end}} {{with .Query.Get "price"}}max-work="{{.}}"{{end}}><noscript>Please switch on JavaScript.</noscript></tally-check>
<p><button id="send">Send</button> <button id="draft" name="as" value="draft" formaction="/{{.Policy}}?draft">Save</button> <button type="reset" id="reset">Reset</button>
</form>
`))

func (s *site) page(policy string, limit *middleware.Middleware) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = pages.Execute(w, map[string]any{"Policy": policy, "Limit": limit, "Query": r.URL.Query()})
	}
}

func (s *site) receive(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseMultipartForm(32 << 20)
	d, _ := middleware.FromContext(r.Context())
	p := post{path: r.URL.RequestURI(), values: r.PostForm, files: map[string]string{}, own: d.Own}
	if r.MultipartForm != nil {
		p.values = r.MultipartForm.Value
		for _, headers := range r.MultipartForm.File {
			f, _ := headers[0].Open()
			body, _ := io.ReadAll(f)
			sum := sha256.Sum256(body)
			p.files[headers[0].Filename] = hex.EncodeToString(sum[:])
		}
	}
	s.mu.Lock()
	s.posts = append(s.posts, p)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<!doctype html><title>thanks</title><p id=thanks>Thanks.")
}

// breakable answers a failure while the site is broken, to anything but files.
func (s *site) breakable(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		broken, after := s.broken, s.after
		s.mu.Unlock()
		if broken != 0 && !strings.Contains(r.URL.Path, ".") {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			http.Error(w, "broken", broken)
			return
		}
		if s.redeeming != nil && strings.HasSuffix(r.URL.Path, "/redeem") {
			s.redeeming()
		}
		next.ServeHTTP(w, r)
	}
}

// breakDown has the endpoints fail with a status, and perhaps a Retry-After; or not any
// more, with 0.
func (s *site) breakDown(status int, after string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.after = status, after
}

// got returns what was posted.
func (s *site) got() []post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]post(nil), s.posts...)
}

// proofs returns how many requests to the API brought one.
func (s *site) proofs() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.sent {
		if c.proof != "" {
			n++
		}
	}
	return n
}

// clean requires that nothing has broken the security policy.
func (s *site) clean() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(s.t, s.reports)
}

// spoken are the roles of the element that a screen reader tells of, and what each
// line of its tree says: role, name, whether it is live, and has the focus.
var spoken = map[string]bool{"form": true, "status": true, "timer": true, "button": true, "progressbar": true}

// tree returns the accessibility tree of the form, as far as the element has a part in
// it: a line for each node, in their order. The form's own buttons are left out.
func (b *tab) tree() (lines []string) {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(b.t, err)
	full := result.Nodes
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range full {
		byID[n.NodeID] = n
	}
	var text func(n *accessibility.Node) string
	text = func(n *accessibility.Node) (words string) {
		if !n.Ignored && said(n.Role) == "StaticText" {
			return said(n.Name)
		}
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				words += text(child)
			}
		}
		return words
	}
	var walk func(n *accessibility.Node)
	walk = func(n *accessibility.Node) {
		role := said(n.Role)
		if name := said(n.Name); !n.Ignored && spoken[role] && !(role == "button" && (name == "Send" || name == "Save" || name == "Reset")) {
			words := []string{role}
			if role == "status" || role == "timer" {
				name = text(n)
			}
			words = append(words, fmt.Sprintf("%q", name))
			for _, p := range n.Properties {
				switch value := said(p.Value); {
				case p.Name == "live" && value != "":
					words = append(words, "live="+value)
				case p.Name == "focused" && value == "true":
					words = append(words, "focused")
				}
			}
			lines = append(lines, strings.Join(words, " "))
		}
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				walk(child)
			}
		}
	}
	walk(full[0])
	return lines
}

// said is a value as text.
func said(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var any any
	if json.Unmarshal(v.Value, &any) != nil || any == nil { // not there
		return ""
	}
	return fmt.Sprint(any)
}

// TestRates reports how fast the solver of browsers is beside the one of Go, in
// one run, and requires that each finds the same answers. The speeds depend on the load
// of the machine; the best of some rounds is told, and no answer comes too late.
func TestRates(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	s.hasTime("signup")
	b := open(t, browser, s.URL+"/signup")
	issuer := kit.Must(pow.New(pow.Config{Secrets: [][]byte{[]byte(strings.Repeat("s", 32))}}))(t)
	who := pow.Binding{Client: []byte("somebody")}
	b.module()

	best := map[string]float64{}
	for range 3 {
		issued := time.Now()
		c := kit.Must(issuer.Issue(issued, who, 1<<20))(t)
		var proof string
		note := func(name string, solve func() string) {
			start := time.Now()
			got := solve()
			rate := tried(t, got) / time.Since(start).Seconds() / 1e6
			best[name] = max(best[name], rate)
			if proof == "" {
				proof = got
			}
			require.Equal(t, proof, got, name)
		}
		for _, workers := range []int{1, 2} {
			note(fmt.Sprintf("Go, %d", workers), func() string {
				return kit.Must(pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: workers}))(t)
			})
			note(fmt.Sprintf("Chromium, %d", workers), func() string {
				return eval[string](b, fmt.Sprintf("solve(%q, { workers: %d })", c.Text, workers))
			})
		}
		note("Chromium, main thread", func() string {
			return eval[string](b, fmt.Sprintf("solve(%q, { workers: 0 })", c.Text))
		})
		kit.Must(issuer.Verify(issued, who, proof))(t)
	}
	for name, rate := range best {
		t.Logf("%-22s %5.2f million hashes a second", name, rate)
	}
}

// tried counts the candidates that led to a proof.
func tried(t *testing.T, proof string) (sum float64) {
	_, answers, _ := strings.Cut(proof, "~")
	for answer := range strings.SplitSeq(answers, ".") {
		n := kit.Must(strconv.Atoi(answer))(t)
		sum += float64(n + 1)
	}
	return sum
}
