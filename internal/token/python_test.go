// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// python runs a program of testdata by Python 3, or skips the test.
func python(t *testing.T, program string, input []byte) []byte {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		testkit.Unable(t, "there is no python3 here")
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
	if testing.Short() {
		t.Skip("-short: no change of the package can break this")
	}
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
			if err == sentinel {
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
			rest := strings.Index(text, string(h.subject[:])) + subjectLen
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
