// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDottedAgreesWithNetip: what we take, package netip takes for the same address; what
// net/http writes of an IPv4 connection, we take.
func TestDottedAgreesWithNetip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	agree := func(s string) bool {
		addr, ok := dotted(s)
		if ok {
			want, err := netip.ParseAddrPort(s)
			require.NoError(t, err, "%q", s)
			four := want.Addr().As4()
			require.Equal(t, binary.BigEndian.Uint32(four[:]), addr, "%q", s)
		}
		return ok
	}
	for range 20_000 {
		want := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32() >> r.IntN(8)), byte(r.Uint32()), byte(r.Uint32())}), uint16(r.Uint32()))
		s := want.String()
		require.True(t, agree(s), "%q", s)
		// One byte of it is another, is missing, or is there once more.
		i, c := r.IntN(len(s)), "0123456789.:[]%-+ \x00\xff"[r.IntN(20)]
		agree(s[:i] + string(c) + s[i+1:])
		agree(s[:i] + s[i+1:])
		agree(s[:i] + s[i:i+1] + s[i:])
	}
	for _, s := range []string{
		"", ".", ":", "1.2.3.4", "1.2.3.4:", "1.2.3:80", "1.2.3.4.5:80", "01.2.3.4:80", "1.2.3.00:80", "256.2.3.4:80", "1.2.3.4:65536",
		"1.2.3.4:99999", "1.2.3.4:080808", "1.2.3.4:-1", "1.2.3.4:8o", "1:2.3.4:80", "1.2.3.4:80:80", "[::1]:80", "::ffff:1.2.3.4", "1.2..4:80",
		"1.2.3.4 :80", " 1.2.3.4:80", "4294967297.2.3.4:80",
	} {
		require.False(t, agree(s), "%q", s)
	}
	for _, port := range []int{0, 1, 80, 9999, 10000, 65535} {
		require.True(t, agree(fmt.Sprintf("203.0.113.255:%d", port)))
	}
}

// BenchmarkForwardedFor: a field of 900 KB costs what a short one does.
func BenchmarkForwardedFor(b *testing.B) {
	for name, line := range map[string]string{"short": "198.51.100.7, 203.0.113.5", "900 KB": strings.Repeat("9", 900<<10)} {
		b.Run(name, func(b *testing.B) {
			identify, err := ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"))
			require.NoError(b, err)
			r := &http.Request{RemoteAddr: "10.0.0.1:4711", Header: http.Header{"X-Forwarded-For": {line}}}
			for b.Loop() {
				_, _ = identify(r)
			}
		})
	}
}

// FuzzForwardedFor: whatever the two forwarding headers say, the client is told by one canonical address, which is
// none of a trusted network unless it is the peer itself, and which nothing that a client writes can change.
func FuzzForwardedFor(f *testing.F) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:feed::/48")}
	forwardedFor, err := ForwardedFor(trusted...)
	require.NoError(f, err)
	forwarded, err := AddressFromHeader("Forwarded", trusted...)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, remote, first, second string, rfc7239 bool) {
		identify, header := forwardedFor, "X-Forwarded-For"
		if rfc7239 {
			identify, header = forwarded, "Forwarded"
		}
		ask := func(lines ...string) (Identity, error) {
			return identify(&http.Request{RemoteAddr: remote, Header: http.Header{header: lines}})
		}
		id, err := ask(first, second)
		if err != nil {
			require.True(t, id.IsZero(), "an error, and somebody")
			return
		}
		require.Equal(t, kindAddress, id.kind)
		peer, ok := peer(&http.Request{RemoteAddr: remote})
		require.True(t, ok, "somebody, by way of nobody")
		addr := id.Addr()
		require.Equal(t, Address(addr).Addr(), addr, "canonical")
		if id.firstAddr() == firstAddrOf(peer) {
			return
		}
		require.True(t, slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(peer.Unmap().WithZone("")) }),
			"an untrusted peer is believed")
		for _, p := range trusted {
			require.False(t, p.Contains(addr), "a proxy of ours is the client")
		}

		plain := addr.String()
		if rfc7239 && addr.Is6() {
			plain = `for="[` + plain + `]"`
		} else if rfc7239 {
			plain = "for=" + plain
		}
		again, err := ask(plain)
		require.NoError(t, err)
		require.Equal(t, id, again, "idempotent")
		// What a client writes lands to the left of what the proxy writes.
		again, err = ask(first, second+","+first, "198.51.100.99", plain)
		require.NoError(t, err)
		require.Equal(t, id, again, "hearsay is believed")
	})
}

// The engine is embedded in a question, and so are others elsewhere: a name of both would mean one thing in a step, and
// another where somebody reads the engine. The compiler does not tell.
func TestNothingHidesANameOfWhatItEmbeds(t *testing.T) {
	parse := func(name string, text any) *ast.File {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		return file
	}
	require.ElementsMatch(t, []string{"question.price", "question.note", "question.name"}, hiddenNames(parse("", `package p
		type engine struct { name string; *deep }
		type deep struct { price int }
		func (e *engine) note() {}
		type question struct { *engine; price int; other }
		type other struct { name string }
		func (q question) note() {}`)))

	names, err := filepath.Glob("[a-z]*.go")
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			files = append(files, parse(name, nil))
		}
	}
	require.Greater(t, len(files), 40)
	require.Empty(t, hiddenNames(files...))
}

// hiddenNames returns the names of fields and methods that a struct has twice: itself, and in a struct of the same package
// that it embeds, or in two of those.
func hiddenNames(files ...*ast.File) (hidden []string) {
	own, embeds := map[string][]string{}, map[string][]string{} // by type
	nameOf := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if name, ok := e.(*ast.Ident); ok {
			return name.Name
		}
		return "" // of another package
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					of := nameOf(n.Recv.List[0].Type)
					own[of] = append(own[of], n.Name.Name)
				}
				return false
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					return false
				}
				for _, field := range s.Fields.List {
					for _, name := range field.Names {
						if name.Name != "_" {
							own[n.Name.Name] = append(own[n.Name.Name], name.Name)
						}
					}
					if len(field.Names) == 0 {
						embeds[n.Name.Name] = append(embeds[n.Name.Name], nameOf(field.Type))
					}
				}
			}
			return true
		})
	}
	var namesIn func(string) []string
	namesIn = func(of string) []string {
		names := own[of]
		for _, inner := range embeds[of] {
			names = append(names[:len(names):len(names)], namesIn(inner)...)
		}
		return names
	}
	for of := range embeds {
		seen := map[string]bool{}
		for _, name := range namesIn(of) {
			if seen[name] {
				hidden = append(hidden, of+"."+name)
			}
			seen[name] = true
		}
	}
	return hidden
}
