// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/siphash"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/pages"
)

// What docs/wire.md says, computed here from its words alone, and held to the vectors.

const wirePage = "docs/wire.md"

// lines are the lines of an example by their first words.
func linesOf(b pages.Block) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(b.Text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = strings.TrimSpace(value)
	}
	return all
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	return kit.Must(hex.DecodeString(text))(t)
}

func derived(t *testing.T, secret, salt, info string) []byte {
	t.Helper()
	return kit.Must(hkdf.Key(sha256.New, unhex(t, secret), []byte(salt), info, 32))(t)
}

func mac(key []byte, message ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(bytes.Join(message, nil))
	return h.Sum(nil)
}

func sum(message ...[]byte) []byte {
	s := sha256.Sum256(bytes.Join(message, nil))
	return s[:]
}

func word(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

var b64 = base64.RawURLEncoding

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text := kit.Must(os.ReadFile(file))(t)
	require.NoError(t, json.Unmarshal(text, into))
}

func TestWireExamples(t *testing.T) {
	var examples []pages.Block
	for _, b := range blocksOf(t, "text") {
		if b.Page == wirePage {
			examples = append(examples, b)
		}
	}
	require.Len(t, examples, 3, "each has its test here")
	t.Run("window token", func(t *testing.T) { tokenExample(t, linesOf(examples[0])) })
	t.Run("proof of work", func(t *testing.T) { proofExample(t, linesOf(examples[1])) })
	t.Run("between peers", func(t *testing.T) { peersExample(t, linesOf(examples[2])) })
}

func peersExample(t *testing.T, said map[string]string) {
	secret := unhex(t, said["secret"])
	key := func(salt []byte, info string) []byte {
		return kit.Must(hkdf.Key(sha256.New, secret, salt, info, 32))(t)
	}
	mac := func(key []byte, texts ...[]byte) []byte {
		h := hmac.New(sha256.New, key)
		for _, text := range texts {
			h.Write(text)
		}
		return h.Sum(nil)
	}
	hello, answer := unhex(t, said["hello"]), unhex(t, said["answers"])
	want := map[string][]byte{
		"0": []byte("tallpeer"), "8": {1}, "9": unhex(t, said["name"]), "17": key(nil, "tallystick/peers/tallies/1")[16:24], "25": unhex(t, said["nonce"]),
		"57": {byte(len(said["address"]))}, "58": []byte(said["address"]),
	}
	rest := hello
	for _, row := range tableOf(t, wirePage, "| at | bytes | what |") {
		if row[0] == "58+n" {
			break
		}
		require.True(t, bytes.HasPrefix(rest, want[row[0]]), "%s: %s", row[0], row[2])
		rest = rest[len(want[row[0]]):]
	}
	signed := func(text []byte) []byte { return text[:len(text)-32] }
	require.Equal(t, mac(key(nil, "tallystick/peers/hello"), signed(hello)), rest)
	require.Equal(t, mac(key(nil, "tallystick/peers/hello"), hello, signed(answer)), answer[len(answer)-32:])
	salt := sha256.Sum256(slices.Concat(hello, answer))
	content := unhex(t, said["content"])
	frame := slices.Concat([]byte{0, 0, 0, byte(len(content))}, []byte(said["kind"]), content)
	frame = append(frame, mac(key(salt[:], "tallystick/peers/dialer/1"), make([]byte, 8), frame)[:16]...)
	require.Equal(t, said["frame"], hex.EncodeToString(frame))
}

func tokenExample(t *testing.T, said map[string]string) {
	var vectors struct {
		Policies []struct {
			Name   string `json:"name"`
			Limits []struct {
				Name      string `json:"name"`
				Algorithm string `json:"algorithm"`
				Window    int64  `json:"window"`
			} `json:"limits"`
		} `json:"policies"`
		Vectors []struct {
			Name     string   `json:"name"`
			Policy   int      `json:"policy"`
			Secrets  []string `json:"secrets"`
			Identity string   `json:"identity"`
			Now      int64    `json:"now"`
			Token    string   `json:"token"`
			Tally    []struct {
				At   int64 `json:"at"`
				Cur  int64 `json:"cur"`
				Prev int64 `json:"prev"`
			} `json:"tally"`
		} `json:"vectors"`
	}
	readJSON(t, "internal/token/testdata/vectors.json", &vectors)
	v := vectors.Vectors[0]
	for _, v = range vectors.Vectors {
		if v.Name == "all three" {
			break
		}
	}
	require.Equal(t, "all three", v.Name)
	policy := vectors.Policies[v.Policy]
	require.Equal(t, []string{v.Secrets[0], policy.Name, v.Identity, strconv.FormatInt(v.Now, 10), v.Token},
		[]string{said["secret"], said["policy"], said["identity"], said["now"], said["token"]})

	key := derived(t, said["secret"], "tallystick/v1", "tallystick/v1/window/"+said["policy"])
	bind := derived(t, said["secret"], "tallystick/v1", "tallystick/v1/bind/"+said["policy"])[:16]
	kid := b64.EncodeToString(derived(t, said["secret"], "tallystick/v1", "tallystick/v1/kid/"+said["policy"]))[:4]
	require.Equal(t, []string{hex.EncodeToString(key), hex.EncodeToString(bind), kid}, []string{said["key"], said["bind"], said["kid"]})
	require.Equal(t, `{"alg":"HS256","kid":"`+kid+`","typ":"t+jwt"}`, said["header"])

	var claims struct {
		Sub string  `json:"sub"`
		Exp int64   `json:"exp"`
		T   []int64 `json:"t"`
	}
	require.NoError(t, json.Unmarshal([]byte(said["payload"]), &claims))
	subject := siphash.New([16]byte(bind)).Sum(unhex(t, said["identity"]))
	require.Equal(t, b64.EncodeToString(subject[:6]), claims.Sub)
	var entries []int64
	for i, limit := range policy.Limits {
		h := uint64(0xcbf29ce484222325) // FNV-1a
		for _, c := range []byte(limit.Algorithm + " " + strconv.FormatInt(limit.Window, 10) + " " + limit.Name) {
			h = (h ^ uint64(c)) * 0x100000001b3
		}
		origin := claims.Exp / limit.Window
		if strings.HasSuffix(limit.Algorithm, "bucket") {
			origin = claims.Exp * 1_000_000
		}
		state := v.Tally[i]
		entries = append(entries, int64((h^h>>24^h>>48)&0xffffff), origin-state.At, state.Cur, state.Prev)
	}
	require.Equal(t, entries, claims.T)
	require.Equal(t, int64(1547), claims.Exp/60-28333333, "the sum below the example")

	signed := b64.EncodeToString([]byte(said["header"])) + "." + b64.EncodeToString([]byte(said["payload"]))
	require.Equal(t, said["token"], signed+"."+b64.EncodeToString(mac(key, []byte(signed))))

	var named []string
	for _, row := range tableOf(t, wirePage, "| claim |") {
		named = append(named, plain(row[0]))
	}
	require.Equal(t, []string{"aud", "sub", "fam", "exp", "t"}, named)
	require.Regexp(t, `^{"aud":".*","sub":".*","exp":\d+,"t":\[.*\]}$`, said["payload"], "fam is of bought ones")
}

func proofExample(t *testing.T, said map[string]string) {
	var vectors struct {
		Secrets []string `json:"secrets"`
		Issue   []struct {
			Name   string `json:"name"`
			Secret int    `json:"secret"`
			At     int64  `json:"at"`
			Client string `json:"client"`
			Route  string `json:"route"`
			Tier   string `json:"tier"`
			Work   uint64 `json:"work"`
			Nonce  string `json:"nonce"`
			Header string `json:"header"`
			Proof  string `json:"proof"`
		} `json:"issue"`
	}
	readJSON(t, "pow/testdata/vectors.json", &vectors)
	v := vectors.Issue[0]
	for _, v = range vectors.Issue {
		if v.Name == "work 1000" {
			break
		}
	}
	require.Equal(t, "work 1000", v.Name)
	challenge, terms, _ := strings.Cut(v.Header, ";")
	require.Equal(t, "ttl=10;work=1000", terms)
	require.Equal(t, []string{vectors.Secrets[v.Secret], v.Client, v.Route, v.Tier, strconv.FormatInt(v.At, 10), v.Nonce, challenge, v.Proof},
		[]string{said["secret"], said["client"], said["route"], said["tier"], said["issued"], said["nonce"], said["challenge"], said["proof"]})

	// The bytes lie where the table says.
	raw := kit.Must(b64.DecodeString(challenge))(t)
	k := int(raw[3])
	field, end := map[string][]byte{}, 0
	number := func(cell string) int {
		total := 0
		for part := range strings.SplitSeq(cell, "+") {
			factor, times, _ := strings.Cut(part, "·")
			n := kit.Must(strconv.Atoi(factor))(t)
			if times == "k" {
				n *= k
			}
			total += n
		}
		return total
	}
	for _, row := range tableOf(t, wirePage, "| offset |") {
		require.Equal(t, end, number(row[0]), "%s begins where the last one ends", row[2])
		end = number(row[0]) + number(row[1])
		require.LessOrEqual(t, end, len(raw))
		field[regexp.MustCompile(`\w+$`).FindString(strings.Split(plain(row[2]), ",")[0])] = raw[number(row[0]):end]
	}
	require.Len(t, raw, end)
	value := func(name string) int64 {
		return int64(binary.BigEndian.Uint64(append(make([]byte, 8-len(field[name])), field[name]...)))
	}
	require.Equal(t, []int64{1, 1, 8, v.At, 10}, []int64{value("version"), value("algorithm"), value("k"), value("issued"), value("ttl")})
	require.Equal(t, said["nonce"], hex.EncodeToString(field["nonce"]))

	key := map[string][]byte{}
	for _, name := range []string{"kid", "mac", "num", "bind"} {
		key[name] = derived(t, said["secret"], "", "tallystick/pow/"+name+"/1")
		if name != "kid" {
			require.Equal(t, said[name], hex.EncodeToString(key[name]))
		}
	}
	require.Equal(t, key["kid"][:1], field["kid"])
	header, seed := raw[:38], sum(raw[:38])
	require.Equal(t, said["seed"], hex.EncodeToString(seed))
	require.Equal(t, said["id"], hex.EncodeToString(sum([]byte("tallystick/pow/id/1"), header)[:16]))
	var bound []byte
	for _, part := range [][]byte{unhex(t, said["client"]), []byte(said["route"]), []byte(said["tier"])} {
		bound = append(append(bound, word(uint32(len(part)))...), part...)
	}
	require.Equal(t, mac(key["bind"], bound)[:8], field["binding"])
	require.Equal(t, mac(key["mac"], raw[:len(raw)-16])[:16], field["MAC"])

	numbers := mac(key["num"], word(0), header)
	answers := strings.Split(strings.TrimPrefix(said["proof"], challenge+"~"), ".")
	require.Len(t, answers, k)
	r := value("R")
	for i, answer := range answers {
		n := kit.Must(strconv.ParseUint(answer, 10, 32))(t)
		require.Equal(t, uint64(binary.BigEndian.Uint32(numbers[4*i:]))*uint64(r)>>32, n)
		require.Equal(t, field["bytes"][6*i:6*i+6], sum(seed, word(uint32(i)), word(uint32(n)))[:6])
	}
	require.EqualValues(t, v.Work, (int64(k)*r+1)/2)
}

// TestWireFields: the page names each field that a response can carry, and no other. What can be
// is read from the source of the middleware, so that a new field needs its row; what a few
// requests are answered with shows that no way to write one is overlooked.
func TestWireFields(t *testing.T) {
	named := map[string]bool{}
	var requested []string
	for _, row := range tableOf(t, wirePage, "| field |") {
		for name := range strings.SplitSeq(plain(row[0]), ", ") {
			if strings.Contains(row[1], "response") {
				named[http.CanonicalHeaderKey(name)] = true
			}
			if strings.Contains(row[1], "request") {
				requested = append(requested, name)
			}
		}
	}
	for _, row := range tableOf(t, wirePage, "| `Config.Fields` |") {
		for _, field := range regexp.MustCompile("`([^`:]+): ").FindAllStringSubmatch(row[1], -1) {
			named[http.CanonicalHeaderKey(field[1])] = true
		}
	}
	written, sent := fieldsWritten(t), fieldsSent(t)
	require.Equal(t, slices.Sorted(maps.Keys(written)), slices.Sorted(maps.Keys(named)), "what the source of middleware writes, and what "+wirePage+" names")
	for name := range sent {
		require.True(t, named[name], "%s is sent, and %s does not name it", name, wirePage)
	}
	for _, name := range middleware.CORSExposeHeaders() {
		require.True(t, sent[http.CanonicalHeaderKey(name)], "no request here is answered with %s", name)
	}
	require.ElementsMatch(t, middleware.CORSAllowHeaders(), requested)
}

// fieldsWritten are the names by which the source of the middleware writes to a header.
func fieldsWritten(t *testing.T) map[string]bool {
	t.Helper()
	var files []*ast.File
	values := map[string][]string{} // of constants, and of tables of them, by package and name
	for _, folder := range []string{"pow", "middleware", "middleware/internal/*"} {
		found := kit.Must(filepath.Glob(folder + "/*.go"))(t)
		require.NotEmpty(t, found)
		for _, file := range found {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed := kit.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
			files = append(files, parsed)
		}
	}
	// valuesOf returns the strings that an expression may be, as far as they stand in the source.
	var valuesOf func(from string, e ast.Expr) []string
	valuesOf = func(from string, e ast.Expr) (all []string) {
		switch e := e.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
				return []string{text}
			}
		case *ast.Ident:
			return values[from+"."+e.Name]
		case *ast.SelectorExpr:
			if of, ok := e.X.(*ast.Ident); ok {
				return values[of.Name+"."+e.Sel.Name]
			}
		case *ast.IndexExpr:
			return valuesOf(from, e.X)
		case *ast.CompositeLit:
			for _, element := range e.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					element = pair.Value
				}
				all = append(all, valuesOf(from, element)...)
			}
		}
		return all
	}
	for range 3 { // a constant may be of another package, and stand in a table
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.ValueSpec); ok {
					for i, value := range spec.Values {
						values[file.Name.Name+"."+spec.Names[i].Name] = valuesOf(file.Name.Name, value)
					}
				}
				return true
			})
		}
	}
	written := map[string]bool{}
	for _, file := range files {
		write := func(name ast.Expr) {
			for _, value := range valuesOf(file.Name.Name, name) {
				written[http.CanonicalHeaderKey(value)] = true
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr: // h.Set(name, value), h.Add(name, value), fields.set(h, name, value)
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 1 && slices.Contains([]string{"set", "add"}, strings.ToLower(method.Sel.Name)) {
					write(n.Args[len(n.Args)-2])
				}
			case *ast.AssignStmt: // h[name] = values
				for _, left := range n.Lhs {
					if at, ok := left.(*ast.IndexExpr); ok {
						write(at.Index)
					}
				}
			}
			return true
		})
	}
	delete(written, "Transfer-Encoding") // has a map copied, and is sent by no server: see reply
	return written
}

// fieldsSent are the fields of some answers, of each kind one.
func fieldsSent(t *testing.T) map[string]bool {
	t.Helper()
	cfg := middleware.Config{
		Policy:    "contact",
		Limits:    []middleware.Limit{{Quota: 1, Window: time.Minute}},
		Secrets:   [][]byte{[]byte(strings.Repeat("s", 32))},
		Challenge: &middleware.Challenge{Work: 16, Path: "/tally/"},
		Logger:    slog.New(slog.DiscardHandler),
	}
	limit := kit.Must(middleware.New(cfg))(t)
	cfg.Challenge = nil
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Principal("ada"), nil }
	cfg.Exact = &middleware.Exact{Counter: brokenCounter{}, Outage: middleware.FailOpen}
	exact := kit.Must(middleware.New(cfg))(t)
	sent := map[string]bool{}
	send := func(h http.Handler, method, path, accept string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
		r.Header.Set("Accept", accept)
		h.ServeHTTP(w, r)
		for name := range w.Result().Header {
			sent[name] = true
		}
	}
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, accept := range []string{"*/*", "*/*", "text/html"} { // admitted, refused, a page
		send(limit.Handler(nothing), http.MethodGet, "/", accept)
	}
	for _, endpoint := range []string{"challenge", "redeem", "ticket"} {
		send(limit.Endpoints(), http.MethodGet, "/tally/"+endpoint, "*/*")
	}
	send(exact.Handler(nothing), http.MethodGet, "/", "*/*")
	return sent
}

// brokenCounter is an exact counter that is down.
type brokenCounter struct{ exact.Counter }

func (brokenCounter) Take(context.Context, exact.Call) (exact.Verdict, error) {
	return exact.Verdict{}, errors.New("down")
}
