// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// go test -run TestVectors -update ./pow writes the vectors and the seeds of the
// fuzz tests anew. A change in the vectors is a change of the wire format.
var update = flag.Bool("update", false, "rewrite testdata/vectors.json and testdata/fuzz")

const vectorsFile = "testdata/vectors.json"

type vectors struct {
	About   string         `json:"about"`
	Secrets []string       `json:"secrets"`
	Issue   []issueVector  `json:"issue"`
	Verify  []verifyVector `json:"verify"`
	Solve   []solveVector  `json:"solve"`
}

type boundTo struct {
	Client string `json:"client"` // hexadecimal
	Route  string `json:"route"`
	Tier   string `json:"tier"`
}

type issueVector struct {
	Name   string `json:"name"`
	Secret int    `json:"secret"`
	At     int64  `json:"at"`
	boundTo
	Work   uint64 `json:"work"`
	Nonce  string `json:"nonce"` // hexadecimal
	Header string `json:"header"`
	Proof  string `json:"proof"`
}

type verifyVector struct {
	Name string `json:"name"`
	Now  int64  `json:"now"`
	boundTo
	Proof   string `json:"proof"`
	Want    string `json:"want"`
	ID      string `json:"id,omitempty"`     // hexadecimal
	Serial  string `json:"serial,omitempty"` // hexadecimal
	Issued  int64  `json:"issued,omitempty"`
	Expires int64  `json:"expires,omitempty"`
	Work    uint64 `json:"work,omitempty"`
}

type solveVector struct {
	Name      string `json:"name"`
	Challenge string `json:"challenge"`
	MaxWork   uint64 `json:"max_work"`
	Want      string `json:"want"`
	Proof     string `json:"proof,omitempty"`
}

// class names a refusal in the vectors.
func class(err error) string {
	for e, name := range map[error]string{
		nil: "valid", ErrMalformed: "malformed", ErrForged: "forged", ErrExpired: "expired", ErrBinding: "binding",
		ErrWrong: "wrong", ErrTooMuchWork: "too-much-work", ErrUnsolvable: "unsolvable",
	} {
		if errors.Is(err, e) {
			return name
		}
	}
	return "unknown: " + err.Error()
}

func (b boundTo) binding(t testing.TB) Binding {
	client := kit.Must(hex.DecodeString(b.Client))(t)
	return Binding{Client: client, Route: b.Route, Tier: b.Tier}
}

func TestVectors(t *testing.T) {
	made := makeVectors(t)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(made))
	if *update {
		require.NoError(t, os.WriteFile(vectorsFile, text.Bytes(), 0o644))
		writeSeeds(t, made)
	}
	file := kit.Must(os.ReadFile(vectorsFile))(t)
	require.Equal(t, text.String(), string(file), "the committed vectors are not what this code makes")
	var v vectors
	require.NoError(t, json.Unmarshal(file, &v))

	ring := make([][]byte, len(v.Secrets))
	for i, s := range v.Secrets {
		ring[i] = kit.Must(hex.DecodeString(s))(t)
	}
	is := newIssuer(t, ring...)
	for _, c := range v.Issue {
		t.Run("issue/"+c.Name, func(t *testing.T) {
			n := kit.Must(hex.DecodeString(c.Nonce))(t)
			got := issueWith(newIssuer(t, ring[c.Secret]), uint32(c.At), c.binding(t), c.Work, [nonceLen]byte(n))
			require.Equal(t, c.Header, got.Header())
			proof := kit.Must(Solve(t.Context(), got.Text, SolveOptions{}))(t)
			require.Equal(t, c.Proof, proof)
		})
	}
	seen := map[string]int{}
	for _, c := range v.Verify {
		seen[c.Want]++
		t.Run("verify/"+c.Name, func(t *testing.T) {
			r, err := is.Verify(time.Unix(c.Now, 0), c.binding(t), c.Proof)
			require.Equal(t, c.Want, class(err))
			if err == nil {
				require.Equal(t, c.ID, hex.EncodeToString(r.ID[:]))
				require.Equal(t, c.Serial, hex.EncodeToString(r.Serial[:]))
				require.Equal(t, []int64{c.Issued, c.Expires}, []int64{r.Issued.Unix(), r.Expires.Unix()})
				require.Equal(t, c.Work, r.Work)
			}
			ref, err := refVerify(ring, time.Unix(c.Now, 0), c.binding(t), c.Proof)
			require.Equal(t, c.Want, class(err))
			require.Equal(t, ref, r)
		})
	}
	for _, want := range []string{"valid", "malformed", "forged", "expired", "binding", "wrong"} {
		require.NotZero(t, seen[want], "no vector is %s", want)
	}
	for _, c := range v.Solve {
		t.Run("solve/"+c.Name, func(t *testing.T) {
			proof, err := Solve(t.Context(), c.Challenge, SolveOptions{MaxWork: c.MaxWork})
			require.Equal(t, c.Want, class(err))
			require.Equal(t, c.Proof, proof)
		})
	}
}

// makeVectors is a pure function of this code.
func makeVectors(t *testing.T) vectors {
	const at = 1_790_000_000
	ring := [][]byte{secretA, secretB}
	is, stranger := newIssuer(t, ring...), newIssuer(t, bytes.Repeat([]byte("C"), 32))
	v := vectors{About: "Made by `go test -run TestVectors -update ./pow`; read by Go, Python and JavaScript. Times are Unix seconds."}
	bound := boundTo{Client: hex.EncodeToString(alice.Client), Route: alice.Route, Tier: alice.Tier}
	for _, s := range ring {
		v.Secrets = append(v.Secrets, hex.EncodeToString(s))
	}

	for _, c := range []struct {
		name   string
		secret int
		b      boundTo
		work   uint64
	}{
		{"work 0", 0, bound, 0},
		{"work 16", 0, bound, 16},
		{"work 17 is rounded up", 0, bound, 17},
		{"work 1000", 0, bound, 1000},
		{"default work", 0, bound, DefaultWork},
		{"second secret", 1, bound, 100},
		{"no tier", 0, boundTo{Client: "20010db8000000000000000000000000", Route: "sign-up"}, 100},
		{"not only ASCII", 0, boundTo{Client: "00ff", Route: "größe", Tier: "ü"}, 100},
	} {
		n := nonce(c.name)
		one := newIssuer(t, ring[c.secret])
		ch := issueWith(one, at, c.b.binding(t), c.work, n)
		v.Issue = append(v.Issue, issueVector{
			Name: c.name, Secret: c.secret, At: at, boundTo: c.b, Work: c.work,
			Nonce: hex.EncodeToString(n[:]), Header: ch.Header(), Proof: proofOf(t, one, ch.Text),
		})
	}

	ch := issueWith(is, at, alice, 1000, nonce("verify"))
	good := proofOf(t, is, ch.Text)
	nothing := issueWith(is, at, alice, 0, nonce("nothing")).Text
	second := newIssuer(t, secretB)
	old := issueWith(second, at, alice, 1000, nonce("second")).Text
	foreign := issueWith(stranger, at, alice, 1000, nonce("stranger")).Text
	raw := kit.Must(base64.RawURLEncoding.DecodeString(ch.Text))(t)
	changed := func(i int) string {
		b := bytes.Clone(raw)
		b[i] ^= 1
		return base64.RawURLEncoding.EncodeToString(b) + strings.TrimPrefix(good, ch.Text)
	}
	sealed := func(change func(*header)) string {
		h := headerOf(t, ch.Text)
		change(&h)
		text := seal(is, 0, h)
		numbers := answersOf8(is, text)
		return string(appendProof(nil, text, numbers[:min(h.k, puzzles)]))
	}
	answers := strings.Split(strings.TrimPrefix(good, ch.Text+"~"), ".")
	with := func(i int, s string) string {
		w := append([]string(nil), answers...)
		w[i] = s
		return ch.Text + "~" + strings.Join(w, ".")
	}
	for _, c := range []struct {
		name  string
		now   int64
		b     boundTo
		proof string
		want  string
	}{
		{"good", at, bound, good, "valid"},
		{"second secret", at, bound, proofOf(t, second, old), "valid"},
		{"work 0", at, bound, nothing + "~", "valid"},
		{"earliest", at - 2, bound, good, "valid"},
		{"too early", at - 3, bound, good, "expired"},
		{"latest", at + 10, bound, good, "valid"},
		{"too late", at + 11, bound, good, "expired"},
		{"other client", at, boundTo{"c0000202", alice.Route, alice.Tier}, good, "binding"},
		{"other route", at, boundTo{bound.Client, "other", alice.Tier}, good, "binding"},
		{"other tier", at, boundTo{bound.Client, alice.Route, ""}, good, "binding"},
		{"parts moved", at, boundTo{bound.Client, alice.Route + alice.Tier, ""}, good, "binding"},
		{"expired goes before binding", at + 11, boundTo{"00", "", ""}, good, "expired"},
		{"stranger's key", at, bound, proofOf(t, stranger, foreign), "forged"},
		{"kid changed", at, bound, changed(1), "forged"},
		{"issued changed", at, bound, changed(7), "forged"},
		{"ttl changed", at, bound, changed(9), "forged"},
		{"R changed", at, bound, changed(13), "forged"},
		{"nonce changed", at, bound, changed(14), "forged"},
		{"tag changed", at, bound, changed(30), "forged"},
		{"target changed", at, bound, changed(38), "forged"},
		{"MAC changed", at, bound, changed(101), "forged"},
		{"version changed", at, bound, changed(0), "malformed"},
		{"algorithm changed", at, bound, changed(2), "malformed"},
		{"k changed", at, bound, changed(3), "malformed"},
		{"ttl 9", at, bound, sealed(func(h *header) { h.ttl = 9 }), "malformed"},
		{"ttl 61", at, bound, sealed(func(h *header) { h.ttl = 61 }), "malformed"},
		{"R 3", at, bound, sealed(func(h *header) { h.span = 3 }), "malformed"},
		{"R above 2^30", at, bound, sealed(func(h *header) { h.span = 1<<30 + 1 }), "malformed"},
		{"k 7, signed", at, bound, sealed(func(h *header) { h.k = 7 }), "malformed"},
		{"k 9, signed", at, bound, sealed(func(h *header) { h.k = 9 }), "malformed"},
		{"first answer wrong", at, bound, with(0, "250"), "wrong"},
		{"last answer wrong", at, bound, with(7, "4294967295"), "wrong"},
		{"answers exchanged", at, bound, ch.Text + "~" + strings.Join(append(answers[4:8:8], answers[:4]...), "."), "wrong"},
		{"2^32", at, bound, with(7, "4294967296"), "malformed"},
		{"leading zero", at, bound, with(7, "0"+answers[7]), "malformed"},
		{"sign", at, bound, with(7, "+"+answers[7]), "malformed"},
		{"exponent", at, bound, with(7, "1e3"), "malformed"},
		{"space", at, bound, good + " ", "malformed"},
		{"answer missing", at, bound, ch.Text + "~" + strings.Join(answers[:7], "."), "malformed"},
		{"answer extra", at, bound, good + ".0", "malformed"},
		{"answers for work 0", at, bound, nothing + "~0", "malformed"},
		{"no answers", at, bound, ch.Text, "malformed"},
		{"CR LF inside", at, bound, good[:50] + "\r\n" + good[50:], "malformed"},
		{"four newlines", at, bound, good[:50] + "\n\n\n\n" + good[54:], "malformed"},
		{"padding", at, bound, strings.Replace(good, "~", "==~", 1), "malformed"},
		{"standard alphabet", at, bound, "++++" + good[4:], "malformed"},
		{"long", at, bound, good + strings.Repeat("1", maxProofLen), "malformed"},
		{"empty", at, bound, "", "malformed"},
		{"a window token", at, bound, "eyJhbGciOiJIUzI1NiIsInR5cCI6InQrand0In0.eyJhdWQiOiJjb250YWN0In0.AAAA", "malformed"},
	} {
		out := verifyVector{Name: c.name, Now: c.now, boundTo: c.b, Proof: c.proof, Want: c.want}
		if c.want == "valid" {
			r, err := refVerify(ring, time.Unix(c.now, 0), c.b.binding(t), c.proof)
			require.NoError(t, err, c.name)
			out.ID, out.Issued, out.Expires, out.Work = hex.EncodeToString(r.ID[:]), r.Issued.Unix(), r.Expires.Unix(), r.Work
			out.Serial = hex.EncodeToString(r.Serial[:])
		}
		v.Verify = append(v.Verify, out)
	}

	for _, k := range []uint8{0, 1, 3, 8, 16} {
		h := header{kid: 1, k: k, issued: at, ttl: 10, span: uint32(min(k, 1)) * 100, nonce: nonce(fmt.Sprint("k", k))}
		text := seal(is, 0, h)
		numbers := answersOf8(is, text)
		twice := append(numbers[:], numbers[:]...)
		v.Solve = append(v.Solve, solveVector{
			Name: fmt.Sprint("k ", k), Challenge: text, MaxWork: 800, Want: "valid",
			Proof: string(appendProof(nil, text, twice[:k])),
		})
	}
	v.Solve = append(v.Solve, []solveVector{
		{Name: "at the cap", Challenge: ch.Text, MaxWork: 1000, Want: "valid", Proof: good},
		{Name: "above the cap", Challenge: ch.Text, MaxWork: 999, Want: "too-much-work"},
		{Name: "no answer", Challenge: spoilt(t, ch.Text, 5), MaxWork: 1000, Want: "unsolvable"},
		{Name: "empty", MaxWork: 1000, Want: "malformed"},
		{Name: "cut", Challenge: ch.Text[:128], MaxWork: 1000, Want: "malformed"},
		{Name: "R 0", Challenge: seal(is, 0, header{k: 8}), MaxWork: 1000, Want: "malformed"},
		{Name: "R without puzzles", Challenge: seal(is, 0, header{span: 1}), MaxWork: 1000, Want: "malformed"},
		{Name: "k 17", Challenge: seal(is, 0, header{k: 17, span: 1}), MaxWork: 1000, Want: "malformed"},
		{Name: "newline", Challenge: ch.Text[:50] + "\n" + ch.Text[51:], MaxWork: 1000, Want: "malformed"},
		{Name: "padding", Challenge: ch.Text + "====", MaxWork: 1000, Want: "malformed"},
	}...)
	return v
}

// writeSeeds makes a corpus of every vector, in the file format of go test.
func writeSeeds(t *testing.T, v vectors) {
	write := func(target, name string, lines ...string) {
		dir := filepath.Join("testdata", "fuzz", target)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		text := "go test fuzz v1\n" + strings.Join(lines, "\n") + "\n"
		file := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(name))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	for i, c := range v.Verify {
		b := c.binding(t)
		write("FuzzVerify", c.Name,
			fmt.Sprintf("string(%q)", c.Proof),
			fmt.Sprintf("byte(%q)", rune(i%modes)),
			fmt.Sprintf("int32(%d)", 4*(c.Now-epoch.Unix())),
			fmt.Sprintf("[]byte(%q)", b.Client),
			fmt.Sprintf("string(%q)", b.Route),
			fmt.Sprintf("string(%q)", b.Tier))
	}
	for _, c := range v.Solve {
		write("FuzzParse", c.Name, fmt.Sprintf("string(%q)", c.Challenge))
	}
	for i, c := range v.Issue {
		write("FuzzParseHeader", c.Name, fmt.Sprintf("string(%q)", c.Header))
		write("FuzzParseHeader", c.Name+" in a list", fmt.Sprintf("string(%q)", " ,Ag"+c.Header[2:]+" ,\t"+v.Issue[len(v.Issue)-1-i].Header))
	}
	write("FuzzParseHeader", "no challenge", `string(";ttl=10;work=1,,")`)
}
