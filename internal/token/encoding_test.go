// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// TestT18 is about numbers that a thief of the key could sign. (The vectors
// have those that no integer is.) Whatever is accepted must be safe to decide on.
func TestT18(t *testing.T) {
	c, h := contact(t)
	sub := fmt.Sprintf(`"sub":"%s"`, subjectOf(&h))
	for kind, names := range map[string]string{"shared": sub, "own": `"fam":"AAAAAAAA"`, "bound": sub + `,"fam":"AAAAAAAA"`} {
		t.Run(kind, func(t *testing.T) { oddNumbers(t, c, &h, names) })
	}
}

func oddNumbers(t *testing.T, c *Codec, h *Holder, names string) {
	exp := now.Unix()/86400*86400 + 2*86400
	token := func(exp int64, numbers ...int64) string {
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
		return sign(c.ring[0], fmt.Sprintf(`{"aud":"contact",%s,"exp":%d,"t":[%s]}`, names, exp, list))
	}
	id := func(i int) int64 { return int64(c.format.policy.ID(i)) }
	nothing := ErrMalformed
	if strings.Contains(names, "fam") {
		nothing = nil
	}

	t.Run("a full count stays full", func(t *testing.T) {
		window := now.Unix() / 60
		got := kit.Must(h.Verify(now, token(exp, id(0), exp/60-window, limiter.MaxQuota, limiter.MaxQuota)))(t)
		require.Equal(t, limiter.State{At: window, Cur: limiter.MaxQuota, Prev: limiter.MaxQuota}, got.Tally[0])
		next, v := c.format.policy.Step(now, got.Tally, 1)
		require.False(t, v.Admitted)
		require.Equal(t, got.Tally[0], next[0])
	})
	t.Run("every edge of a range", func(t *testing.T) {
		for name, tt := range map[string]struct {
			tok  string
			want error
		}{
			"greatest count":     {token(exp, id(0), 5, limiter.MaxQuota, 0), nil},
			"count too great":    {token(exp, id(0), 5, limiter.MaxQuota+1, 0), ErrMalformed},
			"previous too great": {token(exp, id(0), 5, 0, limiter.MaxQuota+1), ErrMalformed},
			"count below zero":   {token(exp, id(0), 5, -1, 0), ErrMalformed},
			"greatest id":        {token(exp, 1<<24-1, 5, 1, 0), nil},
			"id too great":       {token(exp, 1<<24, 5, 1, 0), ErrMalformed},
			"id below zero":      {token(exp, -1, 5, 1, 0), ErrMalformed},
			"id modulo 2³²":      {token(exp, id(0)+1<<32, 5, 1, 0), ErrMalformed},
			"greatest exp":       {token(maxExpires, id(0), 5, 1, 0), nil},
			"exp too great":      {token(maxExpires+1, id(0), 5, 1, 0), ErrMalformed},
			"exp of one":         {token(1, 1, 0, 1, 0), ErrExpired},
			"exp of zero":        {token(0, 1, 0, 1, 0), ErrMalformed},
			"exp below zero":     {token(-1, 1, 0, 1, 0), ErrMalformed},
			"nothing counted":    {token(exp), nothing},
			"nothing of ours":    {token(exp, 1, 0, 1, 0), nil},
			"window of 1970":     {token(exp, id(0), exp/60, 1, 0), nil},
			"window before 1970": {token(exp, id(0), exp/60+1, 1, 0), ErrMalformed},
			"last window":        {token(exp, id(0), exp/60-maxExpires/60, 1, 0), nil},
			"window too late":    {token(exp, id(0), exp/60-maxExpires/60-1, 1, 0), ErrMalformed},
			"mark of 1970":       {token(exp, id(2), exp*1e6, 0, 0), nil},
			"mark before 1970":   {token(exp, id(2), exp*1e6+1, 0, 0), ErrMalformed},
			"last mark":          {token(exp, id(2), exp*1e6-maxExpires*1e6, 0, 0), nil},
			"mark too late":      {token(exp, id(2), exp*1e6-maxExpires*1e6-1, 0, 0), ErrMalformed},
			"greatest age":       {token(exp, 1, maxAge, 1, 0), nil}, // of a limit that is gone
			"age too great":      {token(exp, 1, maxAge+1, 1, 0), ErrMalformed},
			"least age":          {token(exp, 1, -maxAge, 1, 0), nil},
			"age too small":      {token(exp, 1, -maxAge-1, 1, 0), ErrMalformed},
			"least int64":        {token(exp, 1, math.MinInt64, 1, 0), ErrMalformed},
		} {
			_, err := h.Verify(now, tt.tok)
			require.Equal(t, tt.want, err, name)
		}
	})
	t.Run("whatever is accepted can be decided on", func(t *testing.T) {
		r := random(5)
		odd := func() int64 {
			return [...]int64{0, 1, -1, r.Int64N(10), 1 << r.IntN(54), -1 << r.IntN(54), r.Int64N(maxAge), -r.Int64N(maxAge),
				exp / 60, exp * 1e6, exp*1e6 - now.UnixMicro(), limiter.MaxQuota, r.Int64N(limiter.MaxQuota)}[r.IntN(13)]
		}
		m := limiter.NewMemory(16, c.format.policy.Len())
		candidate := limiter.Candidate{Key: m.Key(alice)}
		accepted := 0
		n := rounds(20_000)
		for range n {
			got, err := h.Verify(now, token(max(exp, odd()), id(r.IntN(3)), odd(), odd(), odd()))
			if err != nil {
				continue
			}
			accepted++
			c.format.policy.Step(now, got.Tally, 1)
			c.format.policy.Merge(now, got.Tally, got.Tally)
			candidate.Shown = got.Tally
			m.Take(now, c.format.policy, &candidate, 1) // must not panic
			next, _ := c.format.policy.Step(now, got.Tally, 1)
			require.LessOrEqual(t, len(repeat(h, &Token{Tally: next, Own: got.Own})), MaxLen)
		}
		require.Greater(t, accepted, n/10)
	})
}

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
	return kit.Must(hex.DecodeString(s))(t)
}

// TestVectors reads what an independent implementation wrote: valid tokens and
// what they say, refused ones and why.
func TestVectors(t *testing.T) {
	text := kit.Must(os.ReadFile("testdata/vectors.json"))(t)
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
	committed := kit.Must(os.ReadFile("testdata/vectors.json"))(t)
	generated := python(t, "vectors.py", nil)
	require.True(t, bytes.Equal(committed, generated),
		"testdata/vectors.json is not what testdata/vectors.py writes")
}

// Claims are the claims of a window token, as golang-jwt reads them. Their JSON form, in
// this order and without spaces, is the payload; [Codec] writes and reads the
// very same bytes without the detour.
type Claims struct {
	// Policy is the audience: a token counts for one policy only.
	Policy string `json:"aud"`

	// Subject says to whom a shared tally belongs, and an own one that is bound:
	// a keyed hash of the identity, never the identity.
	Subject string `json:"sub,omitempty"`

	// OwnTally is the id of an own tally: derived from the challenge that was
	// solved for it.
	OwnTally string `json:"fam,omitempty"`

	// Expires is the end of the second window of the longest limit, or of the
	// own tally's life, in Unix seconds: a NumericDate of RFC 7519.
	Expires int64 `json:"exp"`

	// Tally holds four integers for each limit that has counted something:
	//
	//	id, age, current, previous
	//
	// id is the limit's ([limiter.Policy.ID]). For window algorithms, age is
	// how many windows before the one that Expires begins the counts belong to,
	// and the counts of that window and the one before it; of a limit that
	// an own tally has a part of ([limiter.Policy.Pass]), of all before it. For GCRA,
	// age is how many microseconds before Expires the theoretical arrival time
	// lies; current is its overdraft in seconds (see [limiter.State]), mostly 0, and
	// previous is 0.
	Tally []int64 `json:"t"`
}

var _ jwt.Claims = (*Claims)(nil)

// GetExpirationTime implements [jwt.Claims].
func (c *Claims) GetExpirationTime() (*jwt.NumericDate, error) {
	return &jwt.NumericDate{Time: time.Unix(c.Expires, 0)}, nil
}

// GetIssuedAt implements [jwt.Claims]: a window token has none.
func (c *Claims) GetIssuedAt() (*jwt.NumericDate, error) { return nil, nil }

// GetNotBefore implements [jwt.Claims]: a window token has none.
func (c *Claims) GetNotBefore() (*jwt.NumericDate, error) { return nil, nil }

// GetIssuer implements [jwt.Claims]: the keys belong to one deployment.
func (c *Claims) GetIssuer() (string, error) { return "", nil }

// GetSubject implements [jwt.Claims].
func (c *Claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience implements [jwt.Claims].
func (c *Claims) GetAudience() (jwt.ClaimStrings, error) {
	return jwt.ClaimStrings{c.Policy}, nil
}

// claims is the same for golang-jwt.
func (fm *format) claims(subject []byte, own Own, exp int64, t *limiter.Tally) *Claims {
	cl := &Claims{Policy: fm.policy.Name(), Expires: exp, Tally: []int64{}}
	if own.Expires == 0 || own.Bound {
		cl.Subject = string(subject)
	}
	if own.Expires != 0 {
		cl.OwnTally = base64.RawURLEncoding.EncodeToString(own.ID[:])
	}
	for i := range fm.fields {
		if f, s := &fm.fields[i], &t[i]; !f.blank(s) {
			cl.Tally = append(cl.Tally, int64(f.id), f.age(exp, s), int64(s.Cur), int64(s.Prev))
		}
	}
	return cl
}

// Keyfunc is [KeyOf] for golang-jwt, as the public package has it.
func Keyfunc(policy string, secrets [][]byte) (jwt.Keyfunc, error) {
	key, err := KeyOf(policy, secrets)
	if err != nil {
		return nil, err
	}
	return func(t *jwt.Token) (any, error) { return key(t.Header) }, nil
}
