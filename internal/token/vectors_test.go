// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// failures are the classes of testdata/vectors.json.
var failures = map[string]error{
	"":          nil,
	"malformed": ErrMalformed,
	"foreign":   ErrForeign,
	"forged":    ErrForged,
	"expired":   ErrExpired,
	"holder":    ErrHolder,
}

// A vectorPolicy is a policy as the independent implementation knows it.
type vectorPolicy struct {
	Name   string        `json:"name"`
	Limits []vectorLimit `json:"limits"`
}

type vectorLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Quota     int64  `json:"quota"`
	Window    int64  `json:"window"`
	Burst     int64  `json:"burst"`
}

type vectorState struct {
	At   int64  `json:"at"`
	Cur  uint32 `json:"cur"`
	Prev uint32 `json:"prev"`
}

type vectorOwn struct {
	ID      string `json:"id"`
	Expires int64  `json:"expires"`
	Bound   bool   `json:"bound"`
}

type verdict struct {
	Failure string        `json:"failure"`
	Expires int64         `json:"expires"`
	Tally   []vectorState `json:"tally"`
	Own     *vectorOwn    `json:"own"`
}

type vector struct {
	Name     string   `json:"name"`
	Policy   int      `json:"policy"`
	Secrets  []string `json:"secrets"`
	Identity string   `json:"identity"`
	Now      int64    `json:"now"`
	Token    string   `json:"token"`
	Ours     bool     `json:"ours"`
	verdict
}

// compile makes the policy that p describes.
func (p vectorPolicy) compile(t testing.TB) *limiter.Policy {
	var limits []limiter.Limit
	for _, l := range p.Limits {
		limit := limiter.Limit{Name: l.Name, Quota: l.Quota, Window: time.Duration(l.Window) * time.Second, Burst: l.Burst}
		for limit.Algorithm.String() != l.Algorithm {
			limit.Algorithm++
		}
		limits = append(limits, limit)
	}
	return compile(t, p.Name, limits...)
}

// describe is the inverse of compile.
func describe(p *limiter.Policy) vectorPolicy {
	d := vectorPolicy{Name: p.Name()}
	for i := range p.Len() {
		l := p.Limit(i)
		d.Limits = append(d.Limits, vectorLimit{l.Name, l.Algorithm.String(), l.Quota, int64(l.Window / time.Second), l.Burst})
	}
	return d
}

func tallyOf(states []vectorState) (t limiter.Tally) {
	for i, s := range states {
		t[i] = limiter.State(s)
	}
	return t
}

func ownOf(t testing.TB, v *vectorOwn) (own Own) {
	if v != nil {
		own = Own{Expires: v.Expires, Bound: v.Bound}
		require.Equal(t, len(own.ID), copy(own.ID[:], unhex(t, v.ID)))
	}
	return own
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// TestVectors reads what an independent implementation wrote: valid tokens and
// what they say, refused ones and why.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var file struct {
		Policies []vectorPolicy
		Vectors  []vector
	}
	require.NoError(t, json.Unmarshal(text, &file))

	seen := map[string]int{}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			policy := file.Policies[v.Policy].compile(t)
			var secrets [][]byte
			for _, s := range v.Secrets {
				secrets = append(secrets, unhex(t, s))
			}
			h := newCodec(t, policy, secrets...).Holder(unhex(t, v.Identity))
			want, known := failures[v.Failure]
			require.True(t, known, "failure class %q", v.Failure)

			got, err := h.Verify(time.Unix(v.Now, 0), v.Token)
			require.ErrorIs(t, err, want)
			require.Equal(t, Token{v.Expires, tallyOf(v.Tally), ownOf(t, v.Own)}, got)
			if v.Ours {
				require.Equal(t, v.Token, string(repeat(&h, &got)))
			}
		})
		seen[v.Failure]++
		if v.Own != nil {
			seen["own"]++
		}
	}
	require.GreaterOrEqual(t, seen["own"], 15, "vectors of own tallies")
	for class := range failures {
		require.GreaterOrEqual(t, seen[class], 2, "vectors of class %q", class)
	}
	require.True(t, slices.ContainsFunc(file.Vectors, func(v vector) bool { return v.Ours }))
}

// python runs a program of testdata by Python 3, or skips the test.
func python(t *testing.T, program string, input []byte) []byte {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		kit.Unable(t, "there is no python3 here")
	}
	cmd := exec.Command(path, "-B", program) // -B: leave no compiled copy behind
	cmd.Dir = "testdata"
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	return out
}

// TestVectorsAreGenerated holds the committed vectors to their generator.
func TestVectorsAreGenerated(t *testing.T) {
	kit.OnlyWhole(t, "asks what no change of the package can break")
	committed, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	generated := python(t, "vectors.py", nil)
	require.True(t, bytes.Equal(committed, generated),
		"testdata/vectors.json is not what testdata/vectors.py writes")
}

// TestPythonAgrees shows the independent implementation tokens that we signed,
// whole and damaged, and holds its verdicts against ours.
func TestPythonAgrees(t *testing.T) {
	type request struct {
		Policy   vectorPolicy `json:"policy"`
		Secrets  []string     `json:"secrets"`
		Identity string       `json:"identity"`
		Now      int64        `json:"now"`
		Token    string       `json:"token"`
	}
	r := random(1)
	var requests []request
	var want []verdict
	ask := func(h *Holder, c *Codec, now int64, tok string, names ...string) {
		q := request{describe(c.format.policy), nil, hex.EncodeToString(h.identity), now, tok}
		for _, name := range names {
			q.Secrets = append(q.Secrets, hex.EncodeToString(secret(name)))
		}
		got, err := h.Verify(unix(now), tok)
		v := verdict{Expires: got.Expires}
		if !got.Own.IsZero() {
			v.Own = &vectorOwn{hex.EncodeToString(got.Own.ID[:]), got.Own.Expires, got.Own.Bound}
		}
		for class, sentinel := range failures {
			if errors.Is(err, sentinel) { // damage may spell another key's id
				v.Failure = class
			}
		}
		for _, s := range got.Tally[:c.format.policy.Len()] {
			if err == nil {
				v.Tally = append(v.Tally, vectorState(s))
			}
		}
		requests, want = append(requests, q), append(want, v)
	}

	for range rounds(90) {
		c, _ := randomCodec(t, r, secret("b"), secret("a"))
		h := c.Holder(randomBytes(r, 1+r.IntN(100)))
		tally, own := randomTally(r, c.format.policy, now), randomOwn(r, c.format.policy)
		tok := string(give(&h, own, &tally))
		if tok == "" {
			continue
		}
		exp := expires(c.format.policy, own, &tally)
		ask(&h, c, now.Unix(), tok, "b", "a")
		ask(&h, c, exp-1, tok, "b", "a")
		ask(&h, c, exp, tok, "b", "a")

		old := newCodec(t, c.format.policy, secret("a"), secret("b"))
		hOld := old.Holder(h.identity)
		ask(&hOld, old, now.Unix(), tok, "a", "b")
		for range 4 {
			ask(&h, c, now.Unix(), damage(r, tok), "b", "a")
			// Behind the subject: a damaged one is somebody else's, to us.
			text := payload(t, tok)
			rest := strings.Index(text, string(subjectOf(&h))) + subjectLen
			if own != (Own{}) && !own.Bound {
				rest = strings.Index(text, `"fam"`)
			}
			ask(&h, c, now.Unix(), sign(c.ring[0], text[:rest]+damage(r, text[rest:])), "b", "a")
		}
	}

	input, err := json.Marshal(requests)
	require.NoError(t, err)
	answers := json.NewDecoder(bytes.NewReader(python(t, "windowtoken.py", input)))
	for i := range requests {
		var got verdict
		require.NoError(t, answers.Decode(&got))
		require.Equal(t, want[i], got, "%+v", requests[i])
	}
}
