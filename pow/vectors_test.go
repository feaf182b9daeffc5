// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	client, err := hex.DecodeString(b.Client)
	require.NoError(t, err)
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
	file, err := os.ReadFile(vectorsFile)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(file), "the committed vectors are not what this code makes")
	var v vectors
	require.NoError(t, json.Unmarshal(file, &v))

	ring := make([][]byte, len(v.Secrets))
	for i, s := range v.Secrets {
		ring[i], err = hex.DecodeString(s)
		require.NoError(t, err)
	}
	is := newIssuer(t, ring...)
	for _, c := range v.Issue {
		t.Run("issue/"+c.Name, func(t *testing.T) {
			n, err := hex.DecodeString(c.Nonce)
			require.NoError(t, err)
			got := issueWith(newIssuer(t, ring[c.Secret]), uint32(c.At), c.binding(t), c.Work, [nonceLen]byte(n))
			require.Equal(t, c.Header, got.Header())
			proof, err := Solve(t.Context(), got.Text, SolveOptions{})
			require.NoError(t, err)
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
